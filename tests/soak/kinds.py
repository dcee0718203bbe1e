"""The ways to save that are put under pressure, by name. Each has a folder for itself."""

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from attrs import frozen

from tests.soak.states import Block, Training, Tuned, at_step, base, training_of
from treaty.runtime import (
    CheckpointManager,
    IncompleteCheckpointError,
    MissingCheckpointError,
    leaves,
    remove,
    restore,
    save,
    save_async,
)
from treaty.runtime._convert.convert import convert
from treaty.runtime.formats import npz, orbax
from treaty.runtime.formats.directory.manifest import NAME, data_of


@frozen
class Kind:
    """`save` replaces the checkpoint in a folder; `extra` is what lies there and belongs to none; `wait` is for what is saved later."""

    save: Callable[[Path, Training], None]
    restore: Callable[[Path], Training]
    extra: Callable[[Path], Iterable[str]]
    wait: Callable[[Path], None] = lambda _: None


def _with(name: str, **options: Any) -> Kind:
    return Kind(
        lambda folder, state: save(folder / name, state, **options),
        lambda folder: restore(folder / name, Training),
        lambda folder: set(os.listdir(folder)) - {name},
    )


def _save_in_background(folder: Path, state: Training) -> None:
    save_async(folder / "it", state).result()


def _extra_of_directory(folder: Path) -> set[str]:
    inside = set(os.listdir(folder / "it"))
    named = data_of((folder / "it" / NAME).read_bytes())
    return (set(os.listdir(folder)) - {"it"}) | (inside - {NAME, named or ""})


def _extra_of_shards(folder: Path) -> set[str]:
    index = folder / "it.safetensors.index.json"
    shards = set(json.loads(index.read_bytes())["weight_map"].values())
    return set(os.listdir(folder)) - {index.name} - shards


def _save_orbax(folder: Path, state: Training) -> None:
    """Orbax replaces nothing: a step beside the others, of which the older ones go."""
    orbax.write(folder / f"{int(state.step)}", state)
    _keep_newest(folder)


def _keep_newest(folder: Path) -> None:
    steps = sorted((int(name) for name in os.listdir(folder) if name.isdecimal()), reverse=True)
    for step in steps[1:]:
        _remove(folder / str(step))


def _remove(step: Path) -> None:
    try:
        remove(step)
    except MissingCheckpointError:
        step.rmdir()  # of a save that was killed before it wrote anything


def _clean_orbax(folder: Path) -> set[str]:
    _keep_newest(folder)
    return {name for name in os.listdir(folder) if not name.isdecimal() and not name.endswith(".removed")}


def _save_eformer(folder: Path, state: Training) -> None:
    leaves.tree_serialize_leaves(folder / "it", _plain(state))


def _restore_eformer(folder: Path) -> Training:
    tree = leaves.tree_deserialize_leaves(folder / "it", None)
    blocks = tuple(Block(**tree["blocks"][key]) for key in sorted(tree["blocks"]))
    return Training(step=tree["step"], blocks=blocks, seen=np.asarray(tree["seen"]), rate=float(tree["rate"]))


def _plain(state: Training) -> dict[str, Any]:
    blocks = {str(i): {"kernel": one.kernel, "bias": one.bias} for i, one in enumerate(state.blocks)}
    return {"step": state.step, "blocks": blocks, "seen": jnp.asarray(state.seen), "rate": jnp.float32(state.rate)}


def _converted(name: str, **options: Any) -> Kind:
    def write(folder: Path, state: Training) -> None:
        source = folder.parent / f"{folder.name}.source.msgpack"
        save(source, state)
        convert(source, folder / name, cls=Training, replace=True, **options)

    extra = (
        _extra_of_directory if options.get("to_format") == "treaty" else lambda folder: {*os.listdir(folder)} - {name}
    )
    return Kind(write, lambda folder: restore(folder / name, Training), extra)


def _save_step(folder: Path, state: Training) -> None:
    """A directory a step, in the background; of older ones the last three stay."""
    save_async(folder / f"{int(state.step)}", state)
    steps = sorted((int(name) for name in os.listdir(folder) if name.isdecimal()), reverse=True)
    for step in steps[4:]:
        _remove(folder / str(step))


def _restore_step(folder: Path) -> Training:
    """The newest that is there as a whole, as a program does that goes on after a crash."""
    for step in sorted((int(name) for name in os.listdir(folder) if name.isdecimal()), reverse=True):
        with suppress(IncompleteCheckpointError):  # never finished, or removed while it was looked at
            return restore(folder / str(step), Training)
    raise IncompleteCheckpointError(f"expected a step that is whole, got none in {folder}")


_managers: dict[Path, CheckpointManager[Tuned]] = {}  # of this process, which has them until it ends


def manager_of(folder: Path) -> CheckpointManager[Tuned]:
    if folder not in _managers:
        _managers[folder] = CheckpointManager(folder, Tuned, keep_last=2, keep_best=("loss", "min", 2))
    return _managers[folder]


def close_manager(folder: Path) -> None:
    if folder in _managers:
        _managers.pop(folder).close()


def _save_managed(folder: Path, state: Training) -> None:
    """With losses that go up and down, so that now an old step goes, now a new one."""
    step = int(state.step)
    manager_of(folder).save(step, Tuned(frozen=base(), training=state), metrics={"loss": step * 7 % 31})


def _restore_managed(folder: Path) -> Training:
    reader = CheckpointManager(folder, Tuned, read_only=True)
    found = training_of(reader.restore())
    reader.plan()
    return found


def _extra_of_steps(folder: Path) -> set[str]:
    names = set(os.listdir(folder)) - {".treaty"}
    left = {name for name in names if not (folder / name / NAME).exists()}
    return left | (set(os.listdir(folder / ".treaty")) - {"lock", "rules.json"})


KINDS: Final[dict[str, Kind]] = {
    "msgpack": _with("it.msgpack"),
    "msgpack.zst": _with("it.msgpack.zst"),
    "safetensors": _with("it.safetensors"),
    "shards": Kind(
        lambda folder, state: save(folder / "it.safetensors", state, max_shard_bytes=2**20),
        lambda folder: restore(folder / "it.safetensors.index.json", Training),
        _extra_of_shards,
    ),
    "npz": Kind(
        lambda folder, state: npz.write(folder / "it.npz", state),
        lambda folder: restore(folder / "it.npz", Training),
        lambda folder: set(os.listdir(folder)) - {"it.npz"},
    ),
    "directory": Kind(
        lambda folder, state: save(folder / "it", state),
        lambda folder: restore(folder / "it", Training),
        _extra_of_directory,
    ),
    "background": Kind(_save_in_background, lambda folder: restore(folder / "it", Training), _extra_of_directory),
    "steps": Kind(_save_step, _restore_step, lambda _: ()),
    "manager": Kind(_save_managed, _restore_managed, _extra_of_steps, lambda folder: manager_of(folder).wait()),
    "orbax": Kind(_save_orbax, _restore_step, _clean_orbax),
    "eformer": Kind(_save_eformer, _restore_eformer, lambda folder: set(os.listdir(folder)) - {"it"}),
    "convert-orbax": _converted("it", to_format="orbax"),
    "convert-directory": _converted("it", to_format="treaty"),
    "convert-npz": _converted("it.npz"),
}


def begin(folder: Path, kind: Kind, step: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kind.save(folder, at_step(step))
