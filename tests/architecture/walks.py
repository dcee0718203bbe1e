"""The two ways that data takes through `treaty.runtime`, as docs/architecture.md tells them and test_walks.py follows them."""

from typing import Final, NamedTuple

EACH: Final = "formats/<name>"


class Step(NamedTuple):
    """Where data enters a package. A walk passes each package once."""

    package: str
    function: str  # with its module; of a format, the member of its Format
    does: str
    when: str = ""  # else always
    short: str = ""  # the function that is called instead where all of a mapped file is wanted as it lies


RESTORE: Final = (
    Step("_checkpoint", "restore.restore", "takes the path, the class and the options"),
    Step("formats", "table.reading", "recognises what lies at the path, and begins again if it is replaced meanwhile"),
    Step(EACH, "FORMAT.open", "opens it: a `Source`, which is a state dict whose arrays nobody has read yet"),
    Step("_restore", "pipeline.restore", "checks the options, then runs the stages below"),
    Step(
        "_keymaps",
        "apply.to_fields",
        "gives stored names and layouts the names and layouts of fields",
        "with `keymap=`",
    ),
    Step(
        "_evolve",
        "apply.apply",
        "makes a state dict of an earlier revision one of the present",
        "where the checkpoint is of one",
    ),
    Step(
        "_devices",
        "shardings.placement",
        "says where each array will live; `placement.place` takes it there",
        "unless all of a mapped file is wanted as it lies",
    ),
    Step(
        "_state",
        "state_dict.from_state_dict",
        "builds the instance; its generated code checks every leaf",
        short="state_dict.attempt_build",
    ),
)

SAVE: Final = (
    Step("_checkpoint", "save.save", "takes the path, the state and the options"),
    Step("formats", "table.format_meant", "says which format the path asks for"),
    Step(
        "_save",
        "check.checked",
        "makes a state dict that can be restored, or raises all that is wrong",
        "not MessagePack",
    ),
    Step(
        "_state",
        "state_dict.write_state",
        "turns the instance into a state dict, by its generated code",
        "not MessagePack",
    ),
    Step("_evolve", "apply.apply", "makes the state dict one of an earlier revision", "with `revision=`"),
    Step("_keymaps", "apply.to_stored", "gives fields the names and layouts that are stored", "with `keymap=`"),
    Step(EACH, "FORMAT.write", "lays the state dict out, writes it and commits it, with the help of `_storage`"),
)

# Called from everywhere, and no part of a walk. `codec` is what generated code calls.
TOOLS: Final = frozenset({"_errors", "_process", "_storage", "_lazy", "_trees", "_same", "formats/shared", "codec"})
