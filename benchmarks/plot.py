"""The two pictures of the README, from docs/tutorial.md and docs/benchmarks.md: python -m benchmarks.plot

They are cards with a ground of their own, so that they can be read on a light page and on a dark one.
"""

import html
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURES: Final = ROOT / "docs" / "pictures"
WIDTH: Final = 860
GROUND, CARD, LINE, INK, FAINT, BLUE, RED = "#f6f8fa", "#ffffff", "#d0d7de", "#1f2328", "#59636e", "#3f51b5", "#b3261e"
_LINE_HEIGHT: Final = 17
_CHARACTER: Final = 7.25  # of the font below, and no wider in any other


class Bar(NamedTuple):
    section: str  # of docs/benchmarks.md
    row: str  # how the row begins
    label: str


BARS: Final = (
    Bar("State dicts: 2,000 leaves in 1,000 nodes", "`to_state_dict`, jax leaves", "to_state_dict, beside Flax"),
    Bar("State dicts: 2,000 leaves in 1,000 nodes", "`from_state_dict`, jax leaves", "from_state_dict, beside Flax"),
    Bar("MessagePack in memory", "2,000 leaves, 1 MiB", "to_bytes, 2,000 leaves, beside Flax"),
    Bar("MessagePack files: 1 GiB, fsynced", "Flax `to_bytes`", "save a file, 1 GiB, beside Flax"),
    Bar("MessagePack files: 1 GiB, fsynced", "raw write", "save a file, 1 GiB, beside a raw write"),
    Bar("Directories", "`save`: Orbax", "save a directory, 1 GiB, beside Orbax"),
    Bar("Directories", "`restore` into jax: Orbax", "restore a directory, 1 GiB, beside Orbax"),
    Bar("Directories", "`save_async` blocks: Orbax", "save_async blocks, beside Orbax"),
    Bar("safetensors, beside the library", "save, 128 tensors", "save safetensors, 1 GiB, beside the library"),
)


def times_faster(page: str, bar: Bar) -> float:
    """The number in the column `times faster` of the first row of a section that begins so."""
    section = page.partition(f"## {bar.section}\n")[2].partition("\n## ")[0]
    column = None
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "times faster" in cells:
            column = cells.index("times faster")
        elif column is not None and cells[0].startswith(bar.row):
            return float(cells[column])
    raise ValueError(
        f"expected a row {bar.row!r} with a column `times faster` in docs/benchmarks.md, got none in {bar.section!r}"
    )


def benchmarks(page: str) -> str:
    """Bars on a scale of powers: twice as fast is as long from 1 as from 10."""
    left, right, top, step = 330, 790, 64, 30
    height = top + step * len(BARS) + 34
    scale = (right - left) / math.log10(100)
    parts = [_text(24, 30, "How many times faster, measured on two cores", size=16, weight=600)]
    for number in (1, 2, 5, 10, 20, 50, 100):
        x = left + scale * math.log10(number)
        parts.append(f'<path d="M{x:.1f} {top - 8}V{height - 30}" stroke="{LINE}"/>')
        parts.append(_text(x, height - 12, f"{number}", anchor="middle", colour=FAINT, size=12))
    for index, bar in enumerate(BARS):
        value, y = times_faster(page, bar), top + step * index
        width = max(2.0, scale * math.log10(value))
        parts.append(_text(left - 12, y + 14, bar.label, anchor="end", size=13))
        parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="20" rx="3" fill="{BLUE}"/>')
        parts.append(_text(left + width + 8, y + 15, f"{value:g}", size=13, weight=600))
    return _picture(height, "Treaty beside Flax, Orbax, safetensors and the disk: times faster", parts)


def story(tutorial: str) -> str:
    """A declaration, the code that is generated from it, and the error of a checkpoint that does not fit."""
    declared = _between(tutorial, "@state\nclass Linear:", "\n\n\n@state\nclass TrainState")
    generated = _between(tutorial, "def linear_read(", "\n```")
    errors = _between(tutorial, "expected bfloat16[vocab=32, d_model=16]", "\nexpected float32[d_in=64").splitlines()
    code, error = (
        generated.splitlines(),
        [*errors, "…", "of these sizes the checkpoint has others: dims={'d_model': 8}"],
    )
    assert error[-1] in tutorial
    upper = 52 + _LINE_HEIGHT * len(code)
    height = 40 + upper + 92 + _LINE_HEIGHT * len(error)
    parts = [
        *_card(20, 20, 400, upper, "You declare", _shortened(declared.splitlines(), 52)),
        *_card(440, 20, 400, upper, "treaty generate writes", _shortened(code, 52)),
        f'<path d="M420 {20 + upper / 2}h14m-5 -5l6 5l-6 5" stroke="{FAINT}" fill="none"/>',
        f'<path d="M640 {20 + upper}v26m-5 -5l5 6l5 -6" stroke="{FAINT}" fill="none"/>',
        *_card(
            20, 54 + upper, 820, 52 + _LINE_HEIGHT * len(error), "restore says, before an array is read", error, RED
        ),
    ]
    return _picture(height, "A declaration, the generated code, and the error of a wrong restore", parts)


def _between(text: str, begin: str, end: str) -> str:
    found = text.partition(begin)
    assert found[1], f"expected {begin!r} in docs/tutorial.md"
    return begin + found[2].partition(end)[0]


def _shortened(lines: Sequence[str], width: int) -> list[str]:
    return [line if len(line) <= width else line[: width - 1] + "…" for line in lines]


def _card(
    x: float, y: float, width: float, height: float, title: str, lines: Sequence[str], colour: str = INK
) -> Iterator[str]:
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{CARD}" stroke="{LINE}"/>'
    yield _text(x + 14, y + 24, title, size=13, weight=600, colour=FAINT)
    for number, line in enumerate(lines):
        yield _code(x + 14, y + 46 + number * _LINE_HEIGHT, line, colour)


def _code(x: float, y: float, line: str, colour: str) -> str:
    body = html.escape(line, quote=False)
    if colour == INK:
        words = r"(@\w+|\b(?:class|def|if|is|not|or|raise|return|None)\b)"
        body = re.sub(words, rf'<tspan fill="{BLUE}">\1</tspan>', body)
    long = f' textLength="{len(line) * _CHARACTER:.0f}" lengthAdjust="spacingAndGlyphs"' if line.strip() else ""
    return f'<text class="code" x="{x}" y="{y}" fill="{colour}"{long}>{body}</text>'


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", colour: str = INK, size: int = 14, weight: int = 400
) -> str:
    look = f'font-size="{size}" font-weight="{weight}" fill="{colour}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{html.escape(text, quote=False)}</text>'


def _picture(height: float, title: str, parts: Sequence[str]) -> str:
    fonts = "text{font-family:system-ui,-apple-system,'Segoe UI',sans-serif}"
    fonts += (
        ".code{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px;white-space:pre}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{html.escape(title)}">'
    ground = f'<rect width="{WIDTH}" height="{height:.0f}" rx="8" fill="{GROUND}"/>'
    return "\n".join([head, f"<title>{html.escape(title)}</title><style>{fonts}</style>", ground, *parts, "</svg>\n"])


def pictures() -> dict[str, str]:
    tutorial, measured = ((ROOT / "docs" / name).read_text() for name in ("tutorial.md", "benchmarks.md"))
    return {"story.svg": story(tutorial), "benchmarks.svg": benchmarks(measured)}


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (PICTURES / name).write_text(text)


if __name__ == "__main__":
    main()
