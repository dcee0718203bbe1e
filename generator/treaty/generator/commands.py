"""`treaty generate`, `treaty lock` and `treaty check`. `treaty scaffold` has a package of its own."""

import re
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from treaty.generator._check import check_modules
from treaty.generator._findings import can_be_waived
from treaty.generator._generate import orphans, outputs_of
from treaty.generator._modules import Module, read_modules, with_used
from treaty.generator._project import Project
from treaty.generator._relock import LockOptions, Relock
from treaty.generator._report import FORMATS
from treaty.generator._write import write_file
from treaty.schema import TreatyError
from treaty.schema._classes import relative


def errors_as_text(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declaration mistakes are the user's to read, not a traceback. Where there is a format, standard output has them in it too."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TreatyError as error:
            lines = str(error).splitlines()
            for line in lines:
                click.echo(f"error: {line}", err=True)
            for line in FORMATS[kwargs.get("form", "text")]((), lines):
                click.echo(line)
            sys.exit(3 if isinstance(error, FileNotFoundError) else 2)  # as the commands on checkpoints

    return run


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@errors_as_text
def generate(modules: tuple[str, ...]) -> None:
    """Write the generated code of schema modules.

    MODULE is a dotted name, such as my.state, or a file, such as my/state.py; without any, those of [tool.treaty] in pyproject.toml. Schema modules
    of the same project that these use are generated too. The code of my/state.py goes to
    my/state_treaty.py, that of a package my/__init__.py to my/_treaty.py, or where the schema module says `__treaty__ = "pkg.mod"`; where there is
    a lock beside it, the types of earlier revisions go to my/state_treaty_history.py. Generated files that no longer
    belong to anything are removed.
    """
    project = Project.around(modules)
    write_code(read_named(modules, project), project)


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option("-m", "--message", default="", help="Why the declarations changed, for whoever reads the lock.")
@click.option("--moved", multiple=True, metavar="OLD=NEW", help="A class, as my.state:Old=my.state:New, or a module.")
@click.option(
    "--orphan", multiple=True, metavar="CLASS:N", help="Give up revision N of a class, or all of one that is gone."
)
@click.option(
    "--waive",
    multiple=True,
    metavar="RULE:CLASS:N",
    help="A finding of treaty check that is meant so, by its rule: LOAD, or LOAD-dtype.",
)
@click.option("--why", default="", help="The reason, which --orphan and --waive need.")
@errors_as_text
def lock(
    modules: tuple[str, ...],
    message: str,
    moved: tuple[str, ...],
    orphan: tuple[str, ...],
    waive: tuple[str, ...],
    why: str,
) -> None:
    """Append the present declarations to the lock, each as the next revision of its class.

    From then on, checkpoints of these revisions are restored for ever: treaty check fails if a change breaks one. Commit the
    lock (my/state_treaty.lock). A change that orphans an earlier revision is refused, and so is a class that
    vanished, until you say what became of it. Generates the code anew, too.
    """
    project = Project.around(modules)
    found = read_named(modules, project)
    options = LockOptions(message, _moves(moved), tuple(map(_orphan, orphan)), tuple(map(_waiver, waive)), why)
    if (orphan or waive) and not why.strip():
        raise TreatyError("--orphan and --waive need a reason: write --why '...', which stays in the lock")
    relock = Relock(found, project, options, _ask if _is_terminal() else None)
    files = relock.run()
    for path, text in files.items():
        if text is None:
            path.unlink()
        else:
            write_file(path, text)
    for line in relock.said:
        click.echo(line)
    for path, text in files.items():
        click.echo(f"{'removed' if text is None else 'wrote'} {relative(path)}")
    if not files:
        count = sum(len(module.roots) for module in found)
        click.echo(f"nothing to lock: {count} class{'es are' if count != 1 else ' is'} as locked")
        return
    write_code(found, project)


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="text",
    help="text for people, json for programs, github for annotations of a pull request.",
)
@click.option(
    "--against",
    multiple=True,
    metavar="REF|LOCK|CHECKPOINT",
    help="What must not be lost either: a commit of git, another lock, or a checkpoint. Can be given more than once.",
)
@errors_as_text
def check(modules: tuple[str, ...], form: str, against: tuple[str, ...]) -> None:
    """Fail unless earlier checkpoints can still be restored, the lock is up to date, and generated code is fresh.

    One line a finding, with the name of its rule, which docs/rules.md explains: what breaks, where, which revisions, and how to
    write it right. SILENT and LOAD are checkpoints that would be restored as something else, or not at all; PROCESS is what
    is not locked, or was changed after that; DRIFT is a class of another package that changed. Below stale files is what
    differs. Only the last applies to modules without a lock.

    --against a commit, such as origin/main, or a lock: the locks here have all that it has, as it is, and what is missing can be
    restored all the same. Against a checkpoint of any format: it can be restored; generated code must be fresh. An argument that
    is there as a path is that, a lock if its name ends in .lock; any other is a commit, so write refs/heads/x for a branch x where
    there is a file x. A checkpoint in a cloud is an address with ://.

    Exit code 0 if all is fine, 1 if there are findings, 2 if a declaration or a file cannot be read, 3 if a checkpoint is not there.
    """
    project = Project.around(modules)
    found = read_named(modules, project)
    findings = check_modules(found, project, against)
    for line in FORMATS[form](findings, ()):
        click.echo(line)
    if findings:
        sys.exit(1)
    if form == "text":
        click.echo(f"{len(found)} generated module{'s' if len(found) != 1 else ''} fresh")


def read_named(modules: tuple[str, ...], project: Project) -> list[Module]:
    return with_used(read_modules(project.module_names(modules, "treaty generate"), project), project)


def write_code(modules: list[Module], project: Project) -> None:
    outputs: dict[Path, str] = {}
    for module in modules:
        for output in outputs_of(module, project):
            outputs[output.path] = module.name
            changed = write_file(output.path, output.text)
            click.echo(f"{'wrote' if changed else 'fresh'} {relative(output.path)}")
    for path, _ in orphans(outputs, project):
        path.unlink()
        click.echo(f"removed {relative(path)}")


def _moves(moved: tuple[str, ...]) -> dict[str, str]:
    pairs = [one.partition("=") for one in moved]
    for old, _, new in pairs:
        if not old or not new:
            raise TreatyError(f"--moved {old}: expected OLD=NEW, such as my.state:Linear=my.state:Dense")
    return {old: new for old, _, new in pairs}


def _orphan(text: str) -> tuple[str, int | None]:
    name, _, number = text.rpartition(":")
    if not name or not re.fullmatch(r"[1-9]\d*|all", number):
        raise TreatyError(f"--orphan {text}: expected CLASS:N, such as Linear:1, or CLASS:all")
    return name, None if number == "all" else int(number)


def _waiver(text: str) -> tuple[str, str, int]:
    found = re.fullmatch(r"([A-Z]+(?:-[a-z-]+)?):(.+):([1-9]\d*)", text)
    if found is None:
        raise TreatyError(f"--waive {text}: expected RULE:CLASS:N, such as LOAD-dtype:Linear:1")
    if not can_be_waived(found[1]):
        raise TreatyError(
            f"--waive {text}: expected a rule that revisions break, such as LOAD or LOAD-dtype, got {found[1]}"
        )
    return found[1], found[2], int(found[3])


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _ask(symbol: str, candidates: list[str]) -> str:
    """On a terminal: what a class that vanished is called now."""
    click.echo(f"{symbol} is locked, and not declared any more.")
    likely = f" (likely: {', '.join(candidates[:3])})" if candidates else ""
    answer: str = click.prompt(
        f"Its name now{likely}, or 'gone' if nobody will restore it", default=candidates[0] if candidates else "gone"
    )
    return "" if answer == "gone" else answer
