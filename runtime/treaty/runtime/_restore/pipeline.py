"""Restoring, whatever the format: select, key map, resolve, fit, cast, place, build.

All that is wrong is raised before an array is read; then arrays are read where they are wanted, batch by batch.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from treaty.runtime._devices.shardings import placement
from treaty.runtime._errors import Mismatch, StateMismatchError
from treaty.runtime._process.collector import collector_paused
from treaty.runtime._process.progress import progress_bar
from treaty.runtime._process.watching import Measure
from treaty.runtime._restore.casts import FittedDtypes, fit_dtypes
from treaty.runtime._restore.mapped import NOTHING, build_mapped
from treaty.runtime._restore.options import Options
from treaty.runtime._restore.read import read_arrays
from treaty.runtime._restore.resolve import Resolved, hints_of, note_conversions, resolve
from treaty.runtime._restore.select import select
from treaty.runtime._restore.source import Source
from treaty.runtime._state.explain import dims_of
from treaty.runtime._state.registry import Codec, codec_of, is_class
from treaty.runtime._state.state_dict import class_dims, from_state_dict, write_state
from treaty.runtime._trees import Path, flatten, is_stored_array, nest
from treaty.schema.keymap import KeyMap


def restore(source: Source, target: Any, options: Options) -> Any:
    """Build `target`, a class, generic alias or template, from an open checkpoint."""
    codec = codec_of(target)
    options.check(codec)
    with Measure("restore", source.where) as measure:
        built = _measured(source, codec, target, options, measure)
        if measure.is_wanted and options.dims is None and is_class(target):
            measure.note = ", ".join(filter(None, [measure.note, _sizes_taken(codec, built)]))
        return built


def _measured(source: Source, codec: Codec[Any], target: Any, options: Options, measure: Measure) -> Any:
    # The shapes of a template are compared with what was built: too late where that takes a transfer.
    if options.is_plain and source.is_mapped and is_class(target):
        built = build_mapped(source, codec, options)
        if built is not NOTHING:
            if measure.is_wanted:
                measure.nbytes = sum(getattr(leaf, "nbytes", 0) for leaf in jax.tree.leaves(built))
            measure.note = source.note
            return built
    return _restore(source, codec, target, options, measure)


def _sizes_taken(codec: Codec[Any], built: Any) -> str:
    """What the caller gave no word on, and no template for: any other sizes would have been as welcome."""
    sizes = dims_of(codec.schema, write_state(codec, built))
    return f"dims read from the data: {', '.join(f'{name}={size}' for name, size in sizes.items())}" if sizes else ""


def _restore(source: Source, codec: Codec[Any], target: Any, options: Options, measure: Measure) -> Any:
    with collector_paused():
        found = resolve(source, codec, options) if options.keymap is None else _mapped(source, options.keymap, options)
        tree = found.tree
        if found.needs_fit:
            tree = source.fitted(codec.schema, tree)
        dims = class_dims(codec, options.dims, options.keymap)
        checked = _checked(codec, target, tree, dims, options, found)
        shapes, declared = checked.shapes, checked.declared
        if checked.converted:
            note_conversions(source, codec, found.resolution, checked.converted)
        placed = placement(codec.schema, shapes, options.mesh, options.rules, options.shardings, options.into)
        leaves: dict[Path, Any] = dict(flatten(tree)) if type(tree) is dict else {(): tree}
        arrays = {path: leaf for path, leaf in leaves.items() if is_stored_array(leaf)}
        # A numpy scalar may stand for an array without axes: it is placed and converted as one.
        arrays.update((path, np.asarray(leaves[path])) for path in declared if isinstance(leaves.get(path), np.generic))
    measure.nbytes = sum(leaf.nbytes for leaf in arrays.values())
    measure.note = source.note
    with progress_bar("restore", measure.nbytes, options.progress) as advance:
        leaves.update(read_arrays(arrays, declared, placed, options, advance))
    with collector_paused():
        return from_state_dict(target, nest(leaves.items()), dims=dims, into=options.into)


def _mapped(source: Source, keymap: KeyMap, options: Options) -> Resolved:
    """The wanted part of a checkpoint whose names a key map turns into those of the present class."""
    from treaty.runtime._keymaps.apply import to_fields

    mapped = to_fields(keymap, source.named(), options.dims)
    return Resolved(nest(select(list(flatten(mapped)), options.at, source.where)), needs_fit=True)


def _checked(
    codec: Codec[Any], target: Any, tree: Any, dims: Mapping[str, int], options: Options, found: Resolved
) -> FittedDtypes:
    """Raise all that does not fit: what the data shows, and how the class can be told what became of it."""
    problems = () if found.resolution is None else found.resolution.problems
    hints = [*found.hints, *hints_of(found.resolution, options)]
    try:
        checked = fit_dtypes(codec, target, tree, dims, options.cast)
    except StateMismatchError as error:
        raise StateMismatchError(error.mismatches, [*error.hints, *hints]) from None
    if problems:
        raise StateMismatchError([Mismatch(one.expected, one.got, one.path) for one in problems], hints)
    return checked
