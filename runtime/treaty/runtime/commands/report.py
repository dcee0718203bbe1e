"""`treaty report`: a checkpoint, two, or the steps of a run, as one page."""

import os
import re
import sys
from typing import Final

import click

from treaty.runtime._storage.paths import local_path
from treaty.runtime.commands.arguments import CHECKPOINT, PATH
from treaty.runtime.commands.output import FOUND, IMPOSSIBLE, reporting, say, tell
from treaty.schema import TreatyError

_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE: Final = re.compile(r"([0-9]{1,15})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE | re.ASCII)


@click.command()
@click.argument("path", metavar="CKPT", type=CHECKPOINT)
@click.argument("newer", metavar="[CKPT2]", required=False, type=CHECKPOINT)
@click.option("-o", "--output", type=PATH, default="report.html", help="Where to; by default report.html.")
@click.option("--verify", is_flag=True, help="Read every byte and check it, and say so on the page.")
@click.option(
    "--max-bytes", default="1GiB", metavar="SIZE", help="Read so much for statistics: 500MiB, 20GiB. 1GiB by default."
)
@click.option("--force", is_flag=True, help="Replace the output even if it is no report.")
@click.option("--quiet", is_flag=True, help="No progress bar, no summary.")
@reporting(damaged=IMPOSSIBLE)
def report(path: str, newer: str | None, output: str, verify: bool, max_bytes: str, force: bool, quiet: bool) -> None:
    """Write a page about a checkpoint of any format: what it is, where its bytes are, every leaf with its numbers.

    With CKPT2, a later one, also what changed. Of a directory of steps, also metrics, sizes, and which steps stay. The page is one file
    that needs no network. Exit code 0 if all is well, 1 if something is damaged (which the page shows), 2 if
    there is no page, 3 if there is no checkpoint.
    """
    from treaty.runtime._report.gather import gather
    from treaty.runtime._report.html_page import BEGINS, page
    from treaty.runtime._storage.files import write_pieces

    limit = _size(max_bytes)
    place = local_path(output)
    if not force:
        _check_replaceable(place, BEGINS)
    data = gather([path] if newer is None else [path, newer], verify, limit, False if quiet else None)
    write_pieces(place, [page(data).encode()])
    for line in data["problems"]:
        tell(TreatyError(line))
    if not quiet:
        say(f"wrote {place}")
    sys.exit(FOUND if data["problems"] else 0)


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise TreatyError(f"--max-bytes: expected a size like 500MiB, got {text!r}")
    return int(found[1]) * _UNITS[found[2].lower()]


def _check_replaceable(place: str, begins: str) -> None:
    """Before hours of reading."""
    if not os.path.exists(place):
        return
    if os.path.isfile(place):
        with open(place, "rb") as file:
            if file.read(len(begins)) == begins.encode():
                return
    raise TreatyError(f"expected a report, or nothing, at {place}, got something else; --force replaces it")
