"""`treaty steps`: the steps that a manager has saved."""

import json
import math
import time
from typing import Any, Final

import click
from attrs import asdict

from treaty.runtime._manager.listing import as_data
from treaty.runtime._manager.overview import Overview, overview
from treaty.runtime.commands.arguments import CHECKPOINT
from treaty.runtime.commands.output import reporting, say, size_shown
from treaty.runtime.commands.tables import table

_AGES: Final = ((2 * 86400, 86400, "d"), (2 * 3600, 3600, "h"), (120, 60, "min"), (0, 1, "s"))


@click.command()
@click.argument("directory", metavar="DIR", type=CHECKPOINT)
@click.option(
    "--plan", "with_plan", is_flag=True, help="Say of each step whether the rules of its last manager keep it, and why."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the plan.")
@reporting()
def steps(directory: str, with_plan: bool, as_json: bool) -> None:
    """Show the committed steps of a CheckpointManager's directory, from the oldest. Deletes nothing."""
    found = overview(directory)
    say(json.dumps(_as_data(found), indent=2) if as_json else "\n".join(_as_text(found, with_plan)))


def _as_data(found: Overview) -> dict[str, Any]:
    steps = [{**asdict(one), "metrics": as_data(one.metrics)} for one in found.steps]
    return {"path": found.where, "rules": found.rules.as_data(), "steps": steps}


def _as_text(found: Overview, with_plan: bool) -> list[str]:
    now = time.time()
    rows = [("step", "size", "age", "metrics", "verdict")]
    for one in found.steps:
        size = "" if one.nbytes is None else size_shown(one.nbytes)
        metrics = " ".join(f"{name}={value:g}" for name, value in one.metrics.items())
        rows.append(
            (str(one.step), size, _age(now, one.time), metrics, f"{'stays' if one.kept else 'goes'}: {one.why}")
        )
    return table([row if with_plan else row[:-1] for row in rows], soft=(3, 4) if with_plan else (3,))


def _age(now: float, then: float | None) -> str:
    """A clock that jumped shows no more than that it did."""
    if then is None or not math.isfinite(then):
        return ""
    if then > now:
        return "from the future"
    return next(f"{(now - then) / unit:.0f} {name}" for least, unit, name in _AGES if now - then >= least)
