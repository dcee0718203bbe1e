"""What mkdocs does beside its plugins: pages from outside of docs/, parts that are written from the source, pictures."""

import re
from pathlib import Path
from typing import Any, Final

from docs._site import command_line, flowchart, messages, public_names

ROOT: Final = Path(__file__).resolve().parents[2]
FROM_ROOT: Final = ("CHANGELOG.md", "CONTRIBUTING.md")
# <!-- messages of devices, written when the site is built --> stands for messages.markdown("devices")
PARTS: Final = {"commands": command_line.markdown, "messages": messages.markdown, "names": public_names.markdown}
_MARK: Final = re.compile(r"^<!-- (\w+) of ([\w.]+), written when the site is built -->$", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Two pages that stand where people who have the sources look for them."""
    from mkdocs.structure.files import File

    for name in FROM_ROOT:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    return files


def on_config(config: Any) -> Any:
    """A page that the navigation has no place for yet is under its last heading."""
    known = set(re.findall(r"[\w-]+\.md", str(config.nav)))
    config.nav[-1]["About"] += [path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in known]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    folder = ROOT if page.file.src_uri in FROM_ROOT else ROOT / "docs"
    return rewritten(markdown, folder)


def rewritten(markdown: str, folder: Path) -> str:
    """A page as the site has it: its parts written, its links leading to pages, its flowcharts drawn."""
    markdown = _MARK.sub(lambda mark: PARTS[mark[1]](mark[2]), markdown)
    markdown = flowchart.drawn(markdown)
    pieces, end = [], 0
    for fence in _FENCE.finditer(markdown):  # code has no links
        pieces += [_linked(markdown[end : fence.start()], folder), fence[0]]
        end = fence.end()
    return "".join([*pieces, _linked(markdown[end:], folder)])


def _linked(text: str, folder: Path) -> str:
    return _LINK.sub(lambda link: _link(link, folder), text)


def _link(link: re.Match[str], folder: Path) -> str:
    """Other pages by their names. What is only in the repository is named, and no link."""
    label, target, anchor = link[1], (folder / link[2]).resolve(), link[3] or ""
    if target.parent == ROOT / "docs" or (target.parent == ROOT and target.name in FROM_ROOT):
        return f"[{label}]({target.name}{anchor})"
    if target.is_relative_to(ROOT / "docs"):
        return link[0]
    path = target.relative_to(ROOT).as_posix()
    return f"{label} (`{path}`)" if path != label else f"`{label}`"
