"""The docs site: it builds in strict mode without the network, has every public name, and can be read on a phone."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from docs._site.hooks import rewritten

from tests.architecture.packages import ROOT
from tests.site.browser import CHROMIUM, WIDTHS, look
from treaty import runtime, schema

needs_mkdocs = pytest.mark.skipif(
    not (find_spec("material") and find_spec("mkdocstrings_handlers")), reason="needs mkdocs: pip install '.[docs]'"
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    # No way out: whoever asks a server for something fails.
    closed = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    env = {**os.environ, **closed, "NO_MKDOCS_2_WARNING": "1", "JAX_PLATFORMS": "none"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_links_lead_to_pages_of_the_site_or_are_named() -> None:
    page = """[a](../tests/conftest.py), [b](flax.md#stricter), [d](../CHANGELOG.md), [e](#here), [f](https://x.org/)

```py
x["a"](b)
```
"""
    expected = page.replace("[a](../tests/conftest.py)", "a (`tests/conftest.py`)").replace("../CHANGELOG", "CHANGELOG")
    assert rewritten(page, ROOT / "docs") == expected
    assert rewritten("[a](docs/flax.md), [Makefile](Makefile)", ROOT) == "[a](flax.md), `Makefile`"


@needs_mkdocs
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    for module, page in ((schema, "api-schema.html"), (runtime, "api-runtime.html")):
        found = set(re.findall(rf'id="{re.escape(module.__name__)}\.(\w+)"', (site / page).read_text()))
        assert {name for names in module._HOMES.values() for name in names} == found


@needs_mkdocs
def test_every_command_is_in_the_reference(site: Path) -> None:
    from treaty.cli import COMMANDS

    headings = re.findall(r'<h2 id="treaty-(\w+)">', (site / "command-line.html").read_text())
    assert headings == list(COMMANDS)


@needs_mkdocs
def test_no_page_takes_anything_from_elsewhere(site: Path) -> None:
    taken = re.compile(
        r'<(?:script|img|iframe)[^>]* src="(\w+://[^"]*)|<link[^>]* href="(\w+://[^"]*)|url\((\w+://[^)]*)'
    )
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert [(path.name, found) for path in files for found in taken.findall(path.read_text())] == []
    assert taken.search('<script async src="https://unpkg.com/mermaid">')
    assert taken.search("url(https://fonts.example/a)")


@needs_mkdocs
@needs_chromium
def test_it_can_be_read_in_a_browser(site: Path, tmp_path: Path) -> None:
    seen = look(site, tmp_path)
    assert "error" not in seen, seen["error"]
    pages: list[dict[str, Any]] = seen["pages"]
    assert len(pages) == len(WIDTHS) * (len([*site.rglob("*.html")]) - 1)  # all but 404.html
    assert [page for page in pages if page["overflow"] or page["foreign"] or page["missing"]] == []
    assert "/errors.html" in {found.partition("#")[0] for found in seen["found"]}
    (paper, ink), (night, chalk) = seen["colours"]["before"], seen["colours"]["after"]
    assert light(paper) > light(ink)
    assert light(night) < light(chalk)


def light(colour: str) -> float:
    """How bright `rgb(1, 2, 3)` or `rgba(0, 0, 0, 0.5)` is, on white or black as text is."""
    red, green, blue, *_ = map(float, re.findall(r"[\d.]+", colour))
    return red + green + blue
