"""README and docs are executed: files are written, commands run, output compared, code blocks imported."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from treaty import runtime

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
TUTORIALS = ["command-line.md", "evolution.md", "golden.md", "scaffold.md", "tutorial.md"]
FILE = re.compile(r"# (\w+\.py)\n")
EXCERPT = re.compile(r"# excerpt of (\w+\.py)\n")


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def run(command: str, cwd: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    cache = ROOT / ".mypy_cache" / "docs"  # JAX takes mypy half a minute, once
    env = {**os.environ, "PATH": path, "JAX_PLATFORMS": "cpu", "MYPY_CACHE_DIR": str(cache)}
    if re.search("[|&;<>$]", command):
        done = subprocess.run(command, shell=True, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    else:
        done = forked.run(*shlex.split(command), cwd=cwd, env=env)
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    return done.stdout


def patched(text: str, change: str) -> str:
    """A file with a change as people write it: lines that go, lines that come, and some around them."""
    lines = [line if line != "\n" else " \n" for line in change.splitlines(keepends=True)]
    before = "".join(line[1:] for line in lines if line[0] in " -")
    after = "".join(line[1:] for line in lines if line[0] in " +")
    assert text.count(before) == 1, f"expected this once:\n{before}"
    return text.replace(before, after)


def follow(page: Path, folder: Path) -> int:
    """Do what a tutorial says: write its files, change them, run its commands and compare what they print."""
    commands = 0
    for language, text in blocks(page):
        name = FILE.match(text)
        if language == "python" and name:
            (folder / name[1]).write_text(text[name.end() :])
        elif language == "python" and (excerpt := EXCERPT.match(text)):
            assert text[excerpt.end() :] in (folder / excerpt[1]).read_text()
        elif language == "diff" and name:
            file = folder / name[1]
            for change in text[name.end() :].split("...\n"):
                file.write_text(patched(file.read_text(), change))
        elif language == "console":
            for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, flags=re.MULTILINE):
                assert run(command, folder) == output, command
                commands += 1
    return commands


@pytest.mark.parametrize("page", TUTORIALS)
def test_a_tutorial_does_what_it_says(page: str, tmp_path: Path) -> None:
    assert follow(ROOT / "docs" / page, tmp_path) > 0


def test_a_tutorial_that_says_something_else_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('```python\n# a.py\nprint("one")\n```\n```diff\n# a.py\n-print("one")\n+print("two")\n```\n')
    page.write_text(page.read_text() + "```console\n$ python a.py\none\n```\n")
    with pytest.raises(AssertionError, match=r"python a\.py"):
        follow(page, tmp_path)
    assert follow_with(page, "one\n```", "two\n```", tmp_path) == 1


def follow_with(page: Path, wrong: str, right: str, folder: Path) -> int:
    page.write_text(page.read_text().replace(f"python a.py\n{wrong}", f"python a.py\n{right}"))
    return follow(page, folder)


def test_the_readme_does_what_it_says(tmp_path: Path) -> None:
    for file in (ROOT / "examples" / "quickstart").glob("*.py"):
        shutil.copy(file, tmp_path)
    commands = 0
    for language, text in blocks(ROOT / "README.md"):
        name = FILE.match(text)
        excerpt = EXCERPT.match(text)
        if language == "python" and name:
            content = text[name.end() :]
            assert content == (tmp_path / name[1]).read_text()
        elif language == "python" and excerpt:
            assert text[excerpt.end() :] in (tmp_path / excerpt[1]).read_text()
        elif language == "console" and "make demo" not in text:
            for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, flags=re.MULTILINE):
                assert run(command, tmp_path) == output
                commands += 1
    assert commands == 4


def test_the_demo_runs() -> None:
    assert "got float32[8, 40] at $.blocks[1].up.kernel" in run(f"{sys.executable} examples/demo.py", ROOT)


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    """All blocks of a page, one after the other, as one module; those that are files have a test of their own."""
    python = [text for language, text in blocks(ROOT / "docs" / page) if language == "python"]
    code = "\n".join(text for text in python if not FILE.match(text) and not EXCERPT.match(text))
    if not code:
        pytest.skip("no Python on this page")
    (tmp_path / "page.py").write_text(code)
    run(f"{sys.executable} -c 'import page'", tmp_path)


def roundabout(code: str) -> list[str]:
    """Names that code takes from elsewhere, though `treaty.runtime` has them, and all from private modules."""
    found, public, formats = [], set(dir(runtime)), set()
    nodes = list(ast.walk(ast.parse(code)))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("treaty."):
            module = str(node.module)
            is_drop_in = module.endswith((".serialization", ".leaves", ".sharding"))
            for name in (alias.name for alias in node.names):
                if module == "treaty.runtime.formats":
                    formats.add(name)
                elif "._" in f"{module}.{name}" or (module != "treaty.runtime" and not is_drop_in and name in public):
                    found.append(f"{module}.{name}")
    for node in nodes:
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in formats and node.attr in public:
            found.append(f"treaty.runtime.formats.{ast.unparse(node)}")
    return found


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{page}" for page in PAGES)])
def test_examples_import_public_names_from_one_place(page: str) -> None:
    code = [text for language, text in blocks(ROOT / page) if language == "python"]
    assert [name for text in code for name in roundabout(text)] == []


def test_names_from_elsewhere_are_noticed() -> None:
    code = """
from treaty.runtime._errors import LeafError
from treaty.runtime.directory import restore
from treaty.runtime.formats import npz, orbax
from treaty.runtime.leaves import tree_serialize_leaves
from treaty.schema import TreatyError, state
npz.restore("x", X), orbax.read_tree("x")
"""
    assert roundabout(code) == [
        "treaty.runtime._errors.LeafError",
        "treaty.runtime.directory.restore",
        "treaty.schema.TreatyError",
        "treaty.runtime.formats.npz.restore",
    ]


LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def test_links_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    assert [one for page in pages for one in broken(page)] == []


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("""# One `two`: three\n\n[a](page.md#one-two-three), [b](#one-two-three), [c](nowhere.md),
[d](#elsewhere), [e](page.md#elsewhere), [f](https://example.org/x#y)\n\n```py\n# code\nx[0](1), [g](h)\n```\n""")
    assert broken(page) == ["page.md: nowhere.md", "page.md: #elsewhere", "page.md: page.md#elsewhere"]


def broken(page: Path) -> list[str]:
    """Links of a page to files that are not there, and to headings that the page has not."""
    found = []
    for target, anchor in LINK.findall(without_code(page.read_text())):
        if "://" in target:
            continue
        other = page.parent / target if target else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            found.append(f"{page.name}: {target}{'#' * bool(anchor)}{anchor}")
    return found


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them; for those that we have, mkdocs makes the same, or its strict build fails."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
