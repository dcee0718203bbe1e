"""The page in Chromium: it is read, searched, opened by keyboard, and what a checkpoint is called runs nowhere."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.faults.states import Run, run
from tests.report.browser import CHROMIUM, DRIVER, Browser, browser
from tests.runtime.directory.states import Block, Linear, Params, Train, train
from treaty.runtime import CheckpointManager, report
from treaty.runtime.directory import save
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.table import FORMATS

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs chromium and its driver: apt-get install chromium chromium-driver"
)
PHONE, LAPTOP = 390, 1280
NAMES = "tr.row td.name bdi"


def layers(count: int, odd: int | None = None, lr: float = 1e-3) -> Train:
    """Alike blocks, of which one may have a NaN."""
    state = train()
    block = state.params.blocks[0]
    kernel = block.up.kernel.at[0, 0].set(jnp.nan)
    other = Block(up=Linear(kernel=kernel, bias=block.up.bias), down=block.down)
    params = Params(embed=state.params.embed, blocks=tuple(other if one == odd else block for one in range(count)))
    return Train(step=state.step, params=params, rng=state.rng, seen=state.seen, lr=lr)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    save(folder / "a", layers(12))
    save(folder / "b", layers(12, odd=3, lr=0.5))
    with CheckpointManager(folder / "run", Run, keep_last=4, keep_best=("loss", "min", 1)) as manager:
        for step in range(1, 7):
            manager.save(step * 100, run(step), metrics={"loss": 1 / step, "lr": 1e-3})
    CheckpointManager(folder / "run", Run, keep_last=1).close()
    written = {"one": ["b"], "two": ["a", "b"], "run": ["run"]}
    for name, paths in written.items():
        (folder / f"{name}.html").write_text(report(*(folder / path for path in paths), progress=False))
    return folder


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


def overflow(page: Browser) -> list[str]:
    """What reaches out of the window, and does not scroll by itself."""
    found: list[str] = page.run(
        "return [...document.querySelectorAll('body *')].filter(one => !one.closest('.scrolls, .spoken, .skip')"
        " && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 120))"
    )
    return found if page.run("return document.documentElement.scrollWidth > innerWidth") else []


@pytest.mark.parametrize("width", [PHONE, LAPTOP])
@pytest.mark.parametrize("name", ["one", "two", "run"])
def test_it_fits_a_phone_and_a_laptop_and_asks_nobody(name: str, width: int, pages: Path, chromium: Browser) -> None:
    chromium.open(pages / f"{name}.html", width)
    assert overflow(chromium) == []
    chromium.click("tr.row")
    assert overflow(chromium) == []
    assert chromium.run("return performance.getEntriesByType('resource').length") == 0
    assert chromium.console == []


def test_the_check_for_overflow_can_fail(pages: Path, chromium: Browser) -> None:
    chromium.open(pages / "one.html", PHONE)
    chromium.run("document.querySelector('h1').style.width = '600px'")
    assert overflow(chromium)[0].startswith("<h1")


def test_the_head_says_what_the_checkpoint_is(pages: Path, chromium: Browser) -> None:
    chromium.open(pages / "one.html")
    assert chromium.text("h1") == "Train"
    facts = chromium.text(".facts")
    for said in ("not verified", "tests.runtime.directory.states:Train", "sha256:", "streams=4", "54, 26.5 KiB"):
        assert said in facts
    assert chromium.run("return document.title") == "Train – Treaty report"


def test_alike_layers_are_one_row_that_opens(pages: Path, chromium: Browser) -> None:
    chromium.open(pages / "one.html")
    names = chromium.texts(NAMES)
    (at,) = [index for index, name in enumerate(names) if "blocks[0..11]" in name]
    assert "12 alike" in chromium.text("table.tree")
    chromium.run("document.querySelectorAll('tr.row')[arguments[0]].click()", at)
    opened = chromium.texts(NAMES)
    assert opened[at + 1 : at + 13] == [f"[{number}]" for number in range(12)]
    chromium.run("document.querySelectorAll('tr.row')[arguments[0]].click()", at)
    assert chromium.texts(NAMES) == names


def test_a_search_finds_leaves_by_path_type_and_role(pages: Path, chromium: Browser) -> None:
    chromium.open(pages / "one.html")
    chromium.click("#search")
    chromium.type("[3] kernel")
    assert chromium.texts(NAMES) == [
        "$.params.blocks[3].up.kernel",
        "$.params.blocks[3].down.kernel",
    ]
    assert chromium.text("#spoken") == "2 leaves found"
    chromium.click("#search")
    chromium.type(" nothing of that name")
    assert "Nothing is found." in chromium.text("table.tree")


def test_leaves_with_nan_are_one_click_away(pages: Path, chromium: Browser) -> None:
    chromium.open(pages / "one.html")
    chromium.click("[data-filter=bad]")
    assert chromium.texts("tr.row .flag") == ["1 NaN"]
    assert "blocks[3].up.kernel" in chromium.text("tr.row")
    assert chromium.run("return document.querySelector('[data-filter=bad]').ariaPressed") == "true"


def test_everything_can_be_done_by_keyboard(pages: Path, chromium: Browser) -> None:
    chromium.open(pages / "one.html")
    focused = "return document.activeElement.id || document.activeElement.className"
    chromium.press("Tab")
    assert chromium.run(focused) == "skip"
    chromium.press("Tab")
    assert chromium.run(focused) == "theme"
    chromium.press("Tab")
    assert chromium.run(focused).startswith("cell")
    first = chromium.run("return document.activeElement.title")
    chromium.press("Right")
    assert chromium.run("return document.activeElement.title") != first
    assert chromium.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    chromium.press("Enter")
    assert chromium.run(focused) == "row"
    selected = "return document.activeElement.querySelector('.name').innerText"
    chromium.run("document.querySelector('tr.row').focus()")
    chromium.press("Down", "Right", "Right")  # params, which is open; its first leaf; and that one
    assert "embed" in chromium.run(selected)
    assert "elements" in chromium.text("tr.detail")
    chromium.press("Left")
    assert chromium.texts("tr.detail") == []
    chromium.press("Left")
    assert "params" in chromium.run(selected)
    chromium.press("Left")
    assert "embed" not in chromium.text("table.tree")


def test_a_path_is_copied_as_restore_takes_it(pages: Path, chromium: Browser) -> None:
    chromium.open(pages / "one.html")
    chromium.click("#search")
    chromium.type("[3] up kernel")
    chromium.run("document.querySelector('tr.row').focus()")
    chromium.press("c")
    assert chromium.text("#spoken") == 'copied at="params.blocks[3].up.kernel"'
    chromium.click("tr.row .copy")
    assert chromium.text("#spoken") == 'copied at="params.blocks[3].up.kernel"'


def light(colour: str) -> float:
    red, green, blue = (float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(", "))
    return red + green + blue


def test_it_is_dark_where_the_reader_is_and_can_be_turned(pages: Path, chromium: Browser) -> None:
    colours = "return [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    seen = []
    for dark in (False, True):
        chromium.open(pages / "one.html", dark=dark)
        seen.append(chromium.run(colours))
        chromium.click("#theme")
        seen.append(chromium.run(colours))
    assert seen[0] == seen[3] != seen[1] == seen[2]
    assert light(seen[0][0]) > 3 * light(seen[0][1])
    assert light(seen[1][1]) > 3 * light(seen[1][0])


def test_a_treemap_leads_to_the_leaves(pages: Path, chromium: Browser) -> None:
    chromium.open(pages / "one.html")
    assert "params" in chromium.text(".legend")
    areas = chromium.run(
        "return [...document.querySelectorAll('.cell')].map(one => [one.title, one.offsetWidth * one.offsetHeight])"
    )
    assert [area for _, area in areas] == sorted((area for _, area in areas), reverse=True)
    assert any(title.startswith("params.blocks[0..11].up.kernel\nparams: ") for title, _ in areas)
    chromium.click(".cell")
    assert chromium.run("return document.activeElement.className") == "row"


def test_what_changed_comes_first_by_how_much(pages: Path, chromium: Browser) -> None:
    chromium.open(pages / "two.html")
    assert chromium.text("h1") == "Train: what changed"
    assert chromium.text(".summary") == "2 of 54 leaves changed. Both are of one declaration."
    chromium.click("button.more")
    assert chromium.texts(NAMES) == ["$.lr", "$.params.blocks[3].up.kernel"]
    chromium.press("Enter")
    assert "before\n0.001" in chromium.text("tr.detail")


def test_a_run_shows_plots_and_verdicts(pages: Path, chromium: Browser) -> None:
    chromium.open(pages / "run.html")
    assert chromium.texts(".plot figcaption") == ["loss", "lr", "size of a step"]
    points = chromium.run("return document.querySelector('.plot').querySelectorAll('.point').length")
    rows = chromium.texts("table.steps tbody tr")
    assert points == len(rows) == 4
    assert rows[0].startswith("600\tstays\tnewest, keep_last=1\t")
    assert rows[1].startswith("500\tgoes\tno rule keeps it\t")
    assert len(chromium.run("return [...document.querySelector('.plot').querySelectorAll('.point.goes')]")) == 3


HOSTILE = [
    "</script><img src=x onerror=\"document.title='run'\">",
    "<img src=x onerror=\"document.title='run'\">",
    "<!--<script>",
    "'\"`${document.title='run'}",
    "\u202egpj.exe\u2066",
    "\u2028\u2029",
    "__proto__",
    "constructor",
    "javascript:document.title='run'",
    "a" * 300,
]


def test_names_and_values_run_nothing(tmp_path: Path, chromium: Browser) -> None:
    tree: dict[str, Any] = {name: {"leaf": name, "array": np.ones(3)} for name in HOSTILE}
    FORMATS["msgpack"].write(str(tmp_path / "hostile"), tree, Writing())
    (tmp_path / "one.html").write_text(report(tmp_path / "hostile"))
    for width in (PHONE, LAPTOP):
        chromium.open(tmp_path / "one.html", width)
        assert chromium.text("h1") == "hostile"
        assert chromium.run("return document.title") == "hostile – Treaty report"
        chromium.run("document.querySelectorAll('tr.row').forEach(row => row.click())")
        chromium.run("document.querySelectorAll('tr.row').forEach(row => row.querySelector('.turn').click())")
        chromium.click("#search")
        chromium.type("leaf")
        assert len(chromium.texts("tr.row")) == len(HOSTILE)
        assert chromium.run("return document.images.length + document.scripts.length") == 2  # its data and its script
        assert chromium.run("return document.title") == "hostile – Treaty report"
        assert overflow(chromium) == []
        assert chromium.console == []


def test_no_text_of_a_page_turns_another_around(tmp_path: Path, chromium: Browser) -> None:
    mark = "\u202egpj.exe\u2066"
    place = tmp_path / f"run{mark}"
    with CheckpointManager(place, Run, keep_last=2, keep_best=(f"loss{mark}", "min", 1)) as manager:
        for step in (1, 2):
            manager.save(step, run(step), metrics={f"loss{mark}": 1 / step}, metadata={mark: mark})
    for paths in ([place], [place / "1", place / "2"]):
        (tmp_path / "page.html").write_text(report(*paths, verify=True, progress=False))
        chromium.open(tmp_path / "page.html")
        chromium.run("document.querySelectorAll('tr.row').forEach(row => row.click())")
        text = chromium.run("return document.documentElement.outerHTML + document.title")
        assert "\u202e" not in text
        assert "\u2066" not in text
        assert chromium.text("p.where").endswith(r"\u202egpj.exe\u2066" + ("" if len(paths) == 1 else "/2"))
    assert chromium.console == []


def test_a_script_that_got_in_would_not_run(pages: Path, tmp_path: Path, chromium: Browser) -> None:
    """The second wall: the page's own policy."""
    page = (pages / "one.html").read_text()
    attack = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\"></main>"
    (tmp_path / "one.html").write_text(page.replace("</main>", attack))
    chromium.open(tmp_path / "one.html")
    assert chromium.run("return document.title") == "Train – Treaty report"
    assert len([line for line in chromium.console if "Content Security Policy" in line]) >= 2


def test_ten_thousand_leaves_of_a_format_without_an_order(tmp_path: Path, chromium: Browser) -> None:
    names = sorted(f"layer_{number}" for number in range(5000))  # 0, 1, 10, 100, …
    tree = {"params": {name: {"kernel": np.ones((2, 2)), "bias": np.zeros(2)} for name in names}}
    FORMATS["msgpack"].write(str(tmp_path / "many"), tree, Writing())
    (tmp_path / "one.html").write_text(report(tmp_path / "many"))
    chromium.open(tmp_path / "one.html")
    assert chromium.texts(NAMES) == ["params.layer_0..4999"]
    chromium.click("tr.row")
    assert chromium.texts(NAMES)[1:4] == ["layer_0", "layer_1", "layer_2"]
    assert chromium.text("tbody tr:last-child") == "show more of 5,000"
    chromium.click("#search")
    chromium.type("layer_4321 bias")
    assert chromium.texts(NAMES) == ["$.params.layer_4321.bias"]


# Of each text the contrast to what is painted behind it, as WCAG 2 defines it.
CONTRASTS = """
const parts = colour => colour.match(/[\\d.]+/g).map(Number);
const light = ([red, green, blue]) => [0.2126 * red, 0.7152 * green, 0.0722 * blue].reduce((sum, part) => sum + part, 0);
const linear = part => part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4;
const behind = one => { while (one && !(parts(getComputedStyle(one).backgroundColor)[3] !== 0)) one = one.parentElement;
  return parts(getComputedStyle(one ?? document.body).backgroundColor); };
const found = [];
for (const one of document.querySelectorAll('body *')) {
  const hasText = [...one.childNodes].some(child => child.nodeType === 3 && child.data.trim());
  if (!hasText || !one.getClientRects().length || one.closest('script, style')) continue;
  const style = getComputedStyle(one), ink = parts(one.namespaceURI.endsWith('svg') ? style.fill : style.color);
  const [dim, bright] = [light(ink.map(linear)), light(behind(one).map(linear))].sort((a, b) => a - b);
  const ratio = (bright + 0.05) / (dim + 0.05);
  if (ratio < 4.5) found.push([ratio, one.className, one.textContent.slice(0, 40)]);
}
return found;
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["two", "run"])
def test_texts_can_be_read_by_weak_eyes(name: str, dark: bool, pages: Path, chromium: Browser) -> None:
    chromium.open(pages / f"{name}.html", dark=dark)
    chromium.run("document.querySelectorAll('tr.row').forEach(row => row.querySelector('.turn').click())")
    assert chromium.run(CONTRASTS) == []
    chromium.run("document.querySelector('h1').style.color = '#777'")
    assert len(chromium.run(CONTRASTS)) == 1  # the check can fail


@pytest.mark.parametrize("name", ["one", "two", "run"])
def test_those_who_listen_get_headings_and_names(name: str, pages: Path, chromium: Browser) -> None:
    chromium.open(pages / f"{name}.html")
    levels = chromium.run("return [...document.querySelectorAll('h1, h2, h3')].map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert set(levels[1:]) == {2}
    unnamed = (
        "return [...document.querySelectorAll('button, input, [role=region], [role=img], [role=treegrid]')].filter("
        "one => !(one.innerText?.trim() || one.ariaLabel || one.labels?.length)).map(one => one.outerHTML.slice(0, 80))"
    )
    assert chromium.run(unnamed) == []
    assert chromium.run("return document.documentElement.lang") == "en"


Opener = Callable[[Mapping[int, Mapping[str, float]]], None]


@pytest.fixture
def of_run(tmp_path: Path, chromium: Browser) -> Opener:
    """Opens the page of a run with these metrics by step."""

    def opened(metrics: Mapping[int, Mapping[str, float]]) -> None:
        with CheckpointManager(tmp_path / "run", Run) as manager:
            for step, given in metrics.items():
                manager.save(step, run(1), metrics=given)
        (tmp_path / "run.html").write_text(report(tmp_path / "run", progress=False))
        chromium.open(tmp_path / "run.html", LAPTOP)

    return opened


@pytest.mark.parametrize("values", [(0.3, 0.30000000000000004), (1e16, 1e16 + 2), (-1e308, 1e308), (0.0, 5e-324)])
def test_metrics_that_are_as_good_as_equal_or_far_apart_are_drawn(
    values: tuple[float, float], of_run: Opener, chromium: Browser
) -> None:
    of_run({1: {"loss": values[0]}, 2: {"loss": values[1]}})
    assert len(chromium.texts("table.steps tbody tr")) == 2
    assert chromium.console == []


def test_long_numbers_of_steps_are_drawn_and_shown_with_all_digits(of_run: Opener, chromium: Browser) -> None:
    steps = [10**17, 10**17 + 16, 10**17 + 17]
    of_run({step: {"loss": 1 / index} for index, step in enumerate(steps, 1)})
    shown = [text.replace(",", "") for text in chromium.texts("table.steps tbody th")]
    assert shown == [str(step) for step in reversed(steps)]
    assert str(steps[-1]) in chromium.text(".facts")
    assert chromium.console == []


def test_metrics_may_be_called_like_what_every_object_has(of_run: Opener, chromium: Browser) -> None:
    names = ["constructor", "toString", "__proto__", "hasOwnProperty"]
    of_run({1: {"loss": 1.0}, 2: {"loss": 0.5, **dict.fromkeys(names, 0.25)}})
    heads = chromium.texts("table.steps thead th")
    assert set(names) < set(heads)
    cells = chromium.texts("table.steps tbody tr:last-child > *")
    assert [cells[heads.index(name)] for name in names] == ["–"] * len(names)
    assert chromium.console == []


def test_norms_that_are_infinite_are_shown_as_such(tmp_path: Path, chromium: Browser) -> None:
    for name, value in (("a", 1e200), ("b", -1e200), ("c", 1.0)):
        np.savez(tmp_path / f"{name}.npz", w=np.full(3, value))
    for before, after, said in (("a", "b", "nan"), ("c", "b", "inf"), ("b", "c", "nan")):
        page = report(tmp_path / f"{before}.npz", tmp_path / f"{after}.npz", progress=False)
        (tmp_path / "page.html").write_text(page)
        chromium.open(tmp_path / "page.html")
        assert chromium.texts("section[aria-labelledby=changes] tbody td")[1] == said
    assert chromium.console == []
