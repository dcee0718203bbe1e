"""`treaty golden`: one small checkpoint of every revision in every format, and the test that replays them."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from treaty.runtime.commands.arguments import imported
from treaty.runtime.commands.output import FOUND, IMPOSSIBLE, reporting, say, tell
from treaty.schema import TreatyError
from treaty.schema._classes import relative
from treaty.schema._settings import Settings

if TYPE_CHECKING:
    from treaty.runtime._golden.update import GoldenOutcome


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Where to; by default tests/golden."
)
@click.option("--check", is_flag=True, help="Only replay what is there, and say what is missing.")
@reporting(damaged=IMPOSSIBLE)
def golden(modules: tuple[str, ...], output: Path | None, check: bool) -> None:
    """Write a small checkpoint of each locked revision in each format, and the test that restores them all.

    MODULE is a dotted name, such as my.state, or a file; without any, those of [tool.treaty] in pyproject.toml. Commit what is written. Run it
    again after treaty lock: it adds what is new, and never changes a checkpoint that is there. Exit code 0 if all restore as they always did, 1 if one does
    not (with --check, also if something is missing), 2 if a module cannot be used.
    """
    settings = Settings.around(modules)
    names = settings.module_names(modules, "treaty golden")
    if "JAX_PLATFORM_NAME" not in os.environ:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nothing here is worth an accelerator
    folder = output or settings.root / "tests" / "golden"
    sys.path[:0] = [one for one in settings.search_path if one not in sys.path]
    failed = [name for name in names if not _update(name, folder, check)]
    sys.exit(FOUND if failed else 0)


def _update(module: str, folder: Path, check: bool) -> bool:
    """Whether all is as it should be."""
    from treaty.runtime._golden.update import Update

    imported(module, "MODULE")
    update = Update(module, folder, only_replays=check)
    outcomes = update.run()
    for outcome in outcomes:
        for line in outcome.wrong:
            tell(TreatyError(line))
        if text := _text(outcome):
            say(f"{outcome.name}: {text}")
    if update.generic:
        count = len(update.generic)
        say(
            f"{count} generic class{'es are' if count != 1 else ' is'} replayed where others use {'them' if count != 1 else 'it'}"
        )
    for path in update.written:
        say(f"wrote {relative(path)}")
    for path in update.stale:
        say(f"{relative(path)} is not up to date")
    is_missing = bool(update.stale) or any(outcome.missing for outcome in outcomes)
    if is_missing:
        say(f"run: treaty golden {module}")
    return not is_missing and not any(outcome.wrong for outcome in outcomes)


def _text(outcome: "GoldenOutcome") -> str:
    """One line for a class."""
    parts = [
        f"{verb} revision{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
        for verb, numbers in (("added", outcome.added), ("replayed", outcome.replayed))
        if numbers
    ]
    parts += [f"not as {name}: {why}" for name, why in outcome.without.items()]
    parts += [f"missing {what}" for what in outcome.missing]
    return "; ".join(parts)
