"""`treaty generate` and `treaty check`."""

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from treaty.generator._generate import Module, check_modules, orphans, read_modules, text_of, with_used
from treaty.generator._project import Project
from treaty.generator._write import write_file
from treaty.schema import TreatyError
from treaty.schema._classes import relative

_NO_MODULES = (
    "no modules: name them (treaty generate my.state), or list them in pyproject.toml:\n"
    '[tool.treaty]\nmodules = ["my.state"]'
)


def _errors_as_text(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declaration mistakes are the user's to read, not a traceback."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TreatyError as error:
            for line in str(error).splitlines():
                click.echo(f"error: {line}", err=True)
            sys.exit(2)

    return run


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@_errors_as_text
def generate(modules: tuple[str, ...]) -> None:
    """Write the generated code of schema modules.

    MODULE is a dotted name, such as my.state, or a file, such as my/state.py; without any, those of [tool.treaty] in pyproject.toml. Schema modules
    of the same project that these use are generated too. The code of my/state.py goes to
    my/state_treaty.py, that of a package my/__init__.py to my/_treaty.py, or where the schema module says `__treaty__ = "pkg.mod"`. Generated files that no longer
    belong to anything are removed.
    """
    project = Project.find()
    found = _read(modules, project)
    outputs: dict[Path, str] = {}
    for module in found:
        path = project.output_root(module.name, module.file) / module.output
        outputs[path] = module.name
        changed = write_file(path, text_of(module))
        click.echo(f"{'wrote' if changed else 'fresh'} {relative(path)}")
    for path, _ in orphans(outputs, project):
        path.unlink()
        click.echo(f"removed {relative(path)}")


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@_errors_as_text
def check(modules: tuple[str, ...]) -> None:
    """Fail unless generated code is fresh, unedited, and has no orphans.

    Prints what differs and the command that mends it. Exit code: 0 fresh, 1 not, 2 a declaration is wrong.
    """
    project = Project.find()
    found = _read(modules, project)
    findings = check_modules(found, project)
    for finding in findings:
        click.echo(str(finding))
    if findings:
        sys.exit(1)
    click.echo(f"{len(found)} generated module{'s' if len(found) != 1 else ''} fresh")


def _read(modules: tuple[str, ...], project: Project) -> list[Module]:
    names = modules or project.modules
    if not names:
        raise TreatyError(_NO_MODULES)
    return with_used(read_modules([project.module_name(name) for name in names], project), project)
