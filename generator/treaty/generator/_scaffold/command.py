"""`treaty scaffold`: arguments in, a schema file out."""

import difflib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from attrs import frozen

from treaty.generator._locks import code_path
from treaty.generator._project import Project
from treaty.generator._write import write_file
from treaty.generator.commands import errors_as_text, read_named, write_code
from treaty.schema import TreatyError
from treaty.schema._classes import relative

_FACTORY: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_DIGITS: Final = 18


@click.command()
@click.argument("target")
@click.option("-o", "--output", default="-", metavar="FILE", help="The schema module to write; - prints it.")
@click.option("--name", default="TrainState", help="The class of the whole state.")
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZES",
    help="A parameter of the factory that is a size, and values for it: d_model=64,96. Can be given more than once.",
)
@click.option(
    "--check", is_flag=True, help="Go on: generate the code, run mypy, and take the state to a checkpoint and back."
)
@click.option("--force", is_flag=True, help="Overwrite FILE, whatever is in it.")
@errors_as_text
def scaffold(target: str, output: str, name: str, dims: tuple[str, ...], check: bool, force: bool) -> None:
    """Write the schema module of a state that is there already.

    TARGET is PKG.MODULE:FACTORY, a function or class that returns the state: modules, dicts, optimizer states, or any of them in others. It is
    run without making arrays, several times, to see what follows its sizes: those of --dim, or else all its whole-number parameters. Or
    it is a checkpoint of any format that Treaty reads.

    FILE is yours to edit. Where it is there and differs, it stays as it is, and the difference is printed.

    Exit code 0 if FILE is as it should be, 1 if it differs or --check finds a fault, 2 if there is an error, 3 if a checkpoint is not there.
    """
    _found_by_import(Project.find())
    if "JAX_PLATFORM_NAME" not in os.environ:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nothing here is worth an accelerator
    if not name.isidentifier() or not name[0].isupper():
        raise TreatyError(f"--name {name}: expected the name of a class, such as TrainState")
    path = None if output == "-" else Path(output)
    if path is None and check:
        raise TreatyError("--check: expected a file to write, got none; add -o state.py")
    if path is not None and path.suffix != ".py":
        raise TreatyError(f"-o {output}: expected a Python module, such as state.py")
    try:
        found = _scaffolded(target, name, dict(map(_sizes, dims)))
        if path is None:
            click.echo(found.text, nl=False)
        elif not _write(path, found.text, target, force) or (check and not _check(path, name, found)):
            sys.exit(1)
    except (OSError, UnicodeError) as error:
        if isinstance(error, TreatyError):
            raise
        raise TreatyError(str(error)) from error


def _found_by_import(project: Project) -> Project:
    sys.path[:0] = [one for one in project.search_path if one not in sys.path]
    return project


@frozen
class _Scaffolded:
    """The text, and how the state that it is of goes to a checkpoint and back: what that says if all is well."""

    text: str
    comes_back: Callable[[Any], str]


def _scaffolded(target: str, name: str, dims: dict[str, Sequence[int]]) -> _Scaffolded:
    if os.path.lexists(target) or "://" in target:
        return _of_checkpoint(target, name, dims)
    if not _FACTORY.fullmatch(target):
        raise TreatyError(
            f"TARGET: expected PKG.MODULE:FACTORY, such as train:make_state, or a checkpoint, got {target!r}"
        )
    from treaty.generator._scaffold.factory import StateFactory  # these import JAX
    from treaty.generator._scaffold.round_trip import live_comes_back
    from treaty.generator._scaffold.sizes import sightings_of, sizes_to_try
    from treaty.generator._scaffold.write import factory_text

    factory = StateFactory.named(target)
    sightings = sightings_of(factory, dims, _tell)

    def comes_back(cls: Any) -> str:
        sizes = sizes_to_try(sightings)
        return f"{live_comes_back(cls, factory.filled(sizes))} leaves of {factory.called(sizes)} came back bit for bit"

    return _Scaffolded(factory_text(target, name, sightings), comes_back)


def _of_checkpoint(path: str, name: str, dims: Mapping[str, Sequence[int]]) -> _Scaffolded:
    from treaty.generator._scaffold.round_trip import checkpoint_comes_back
    from treaty.generator._scaffold.runtime_door import runtime
    from treaty.generator._scaffold.write import checkpoint_text

    if dims:
        raise TreatyError("--dim: a checkpoint has the sizes that it has; leave it out")
    text = checkpoint_text(path, name, runtime("outline_of_checkpoint")(path))
    return _Scaffolded(text, lambda cls: f"{checkpoint_comes_back(cls, path)} leaves of {path} came back bit for bit")


def _check(path: Path, root: str, found: _Scaffolded) -> bool:
    """Whether what was written does what it is for. A line for each step."""
    from treaty.generator._scaffold.round_trip import Written, mypy_says

    project = _found_by_import(Project.around((str(path),)))
    modules = read_named((str(path),), project)
    write_code(modules, project)
    written = Written(path, modules[0], root)
    is_right, said = mypy_says(written, code_path(modules[0], project), project)
    click.echo("\n".join(f"mypy --strict: {line}" for line in said.splitlines()))
    if is_right:
        click.echo(f"round trip: {found.comes_back(written.cls())}")
    return is_right


def _write(path: Path, text: str, target: str, force: bool) -> bool:
    """Whether the file is now as it should be."""
    if path.exists() and not force:
        before = path.read_text(encoding="utf-8")
        if before != text:
            lines = difflib.unified_diff(
                before.splitlines(keepends=True),
                text.splitlines(keepends=True),
                relative(path),
                f"{target}, as it is now",
            )
            click.echo("".join(lines), nl=False)
            _tell(
                f"{relative(path)} stays as it is: take over what you want of this by hand, or all of it with --force"
            )
            return False
    click.echo(f"{'wrote' if write_file(path, text) else 'fresh'} {relative(path)}")
    return True


def _sizes(text: str) -> tuple[str, list[int]]:
    name, _, sizes = text.partition("=")
    values = sizes.split(",")
    if not name or not all(one.isdecimal() and len(one) <= _DIGITS and int(one) for one in values):
        raise TreatyError(f"--dim {text}: expected NAME=SIZE,SIZE,…, such as d_model=64,96")
    return name, list(dict.fromkeys(map(int, values)))


def _tell(line: str) -> None:
    click.echo(f"note: {line}", err=True)
