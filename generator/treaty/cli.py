"""The `treaty` command: one table of names. A command's module is imported when the command is run, no sooner."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# name -> (module:function, help in one line). The help stands here so that `treaty --help` imports nothing.
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "scaffold": ("treaty.generator._scaffold.command:scaffold", "Write the schema of a state that is there already."),
    "generate": ("treaty.generator.commands:generate", "Write the generated modules."),
    "lock": ("treaty.generator.commands:lock", "Record the present declarations as revisions that stay restorable."),
    "check": (
        "treaty.generator.commands:check",
        "Fail if a change breaks earlier checkpoints, or generated code is stale.",
    ),
    "convert": ("treaty.runtime.commands.conversion:convert", "Write a checkpoint in another format."),
    "diff": ("treaty.runtime.commands.conversion:diff", "Compare two checkpoints of any formats."),
    "golden": ("treaty.runtime.commands.golden:golden", "Write a checkpoint of every revision, and replay them."),
    "inspect": ("treaty.runtime.commands.checkpoints:inspect", "Show what a checkpoint holds."),
    "plan": ("treaty.runtime.commands.plan:plan", "Show what restoring a checkpoint would do with every leaf."),
    "remove": ("treaty.runtime.commands.checkpoints:remove", "Delete checkpoints, so that no part is taken for one."),
    "report": ("treaty.runtime.commands.report:report", "Write a page that shows a checkpoint, or what changed."),
    "steps": ("treaty.runtime.commands.steps:steps", "Show the steps of a run, and which of them stay."),
    "verify": ("treaty.runtime.commands.checkpoints:verify", "Read every byte of a checkpoint and check it."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, function = COMMANDS[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}.{_meant(name)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Without importing the commands, since somebody waits for it at a key."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=help) for name, (_, help) in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def _meant(name: str) -> str:
    from difflib import get_close_matches  # and not treaty.schema's: nothing is imported for this

    near = get_close_matches(name, COMMANDS, 2)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="treaty")
def main(**_: Any) -> None:
    """Typed checkpoint schemas for JAX.

    COMMAND -h tells of a command. Exit codes of all: 0 well, 1 a finding, 2 wrong usage or impossible, 3 the checkpoint is not there.
    """


if __name__ == "__main__":
    main(prog_name="treaty")
