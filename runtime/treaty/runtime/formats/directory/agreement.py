"""What all processes of a save must have alike, how process 0 finds the first difference, and what it decides for all.

Structure is compared before anything is written, by one digest; small leaves too. Of a large array that each process has
for itself, such as one of numpy, process 0 writes its own, and the others send the checksums of theirs.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from attrs import evolve

from treaty.runtime._errors import show_keys
from treaty.runtime.formats import msgpack
from treaty.runtime.formats.directory.checksum import checksum
from treaty.runtime.formats.directory.compression import compressed
from treaty.runtime.formats.directory.manifest import Leaf
from treaty.runtime.formats.directory.plan import Pack, Piece, SavePlan, array_digest, chunked, is_here, layout, on_host
from treaty.schema import TreatyError

Facts: TypeAlias = list[tuple[list[str], str]]  # what is said, of what
Sums: TypeAlias = dict[int, dict[int, str]]  # leaf -> number of the chunk -> digest


def facts_of(plan: SavePlan) -> Facts:
    """All that a save is, but for the values; in an order that does not depend on that of dicts."""
    leaves = sorted(zip(plan.leaves, plan.shards, strict=True), key=lambda one: one[0].path)
    return [
        (["class"], f"{plan.schema.root} of {plan.schema.digest}"),
        *((["step"], str(plan.step[name])) for name in ("step",) if name in plan.step),
        *((["leaf", *leaf.path], _described(leaf, shard)) for leaf, shard in leaves),
        *((["dim", name], str(size)) for name, size in sorted(plan.dims.items())),
        *((["metadata", key], json.dumps(value, sort_keys=True)) for key, value in sorted(plan.metadata.items())),
        (["layout"], f"{layout()}{', compressed' if plan.compress else ''}"),
    ]


def digest_of(data: Any) -> str:
    return checksum(json.dumps(data).encode())


def difference(ours: Facts, theirs: Facts, process: int) -> str | None:
    """The first thing that a process says otherwise than process 0."""
    said = {tuple(of): text for of, text in theirs}
    known = {tuple(of): text for of, text in ours}
    for of in [*known, *said]:
        if known.get(of) != said.get(of):
            return f"process {process} saves {said.get(of, 'nothing')} {_at(of)}, process 0 {known.get(of, 'nothing')}"
    return None


def order_of(plan: SavePlan) -> list[int]:
    """For each leaf, its rank among all paths: what another process needs to number its own leaves in this order."""
    ranks = {path: rank for rank, path in enumerate(sorted(leaf.path for leaf in plan.leaves))}
    return [ranks[leaf.path] for leaf in plan.leaves]


def values_of(plan: SavePlan) -> dict[int, str]:
    """Checksums of the leaves that share files, by their ranks among all paths, as far as this process has them."""
    order = order_of(plan)
    found = {order[i]: value for pack in plan.packs for i, value in pack.leaves.items() if is_here(value)}
    sums = {}
    for rank in sorted(found):
        try:
            sums[rank] = _value_sum(found[rank])
        except (TypeError, ValueError, OverflowError) as error:
            path = plan.leaves[order.index(rank)].path
            raise TreatyError(f"expected a value that MessagePack holds, got {error} at {show_keys(path)}") from error
    return sums


def settle(plan: SavePlan, order: Sequence[int], owners: Mapping[int, int]) -> SavePlan:
    """The plan of a process that follows, with the numbers that process 0 gave the leaves.

    `owners` are arrays that process 0 does not have: that others do not have them either is not known to the one that does.
    """
    by_rank = sorted(range(len(plan.leaves)), key=lambda own: plan.leaves[own].path)
    own_of = [by_rank[rank] for rank in order]
    number_of = {own: number for number, own in enumerate(own_of)}

    def moved(pieces: Sequence[Piece]) -> list[Piece]:
        return [evolve(piece, leaf=number_of[piece.leaf]) for piece in pieces]

    leaves = [plan.leaves[own] for own in own_of]
    small = {number_of[own]: one for pack in plan.packs for own, one in pack.leaves.items() if is_here(one)}
    sums = {number_of[own]: found for own, found in plan.sums.items()}
    pieces, spare = moved(plan.pieces), moved(plan.spare)
    for number, owner in owners.items():
        shard, axes = plan.shards[own_of[number]], plan.axes.get(leaves[number].path, ())
        leaf = leaves[number] = compressed(chunked(leaves[number], shard, axes), plan.compress)
        found = [piece for piece in spare if piece.leaf == number]
        if number in small:
            found.append(Piece(number, (0,) * len(leaf.shape), on_host(small.pop(number))))
        if number in sums or (owner == jax.process_index()) != bool(found):
            raise TreatyError(
                f"expected an array on devices of process {owner} alone, as process 0 has it, "
                f"got another one at {show_keys(leaf.path)}"
            )
        pieces += found
    return evolve(
        plan,
        leaves=tuple(leaves),
        packs=(Pack("", dict(sorted(small.items()))),),
        pieces=tuple(pieces),
        spare=tuple(piece for piece in spare if piece.leaf not in owners),
        sums=sums,
        shards=tuple(plan.shards[own] for own in own_of),
    )


def add_part(plan: SavePlan, sums: Sums, process: int, part: Mapping[str, Any]) -> Iterator[str]:
    """Add the checksums that a process wrote, and say what it has otherwise than process 0."""
    ours = values_of(plan) if "values" in part else {}
    leaves = sorted(leaf.path for leaf in plan.leaves)
    for rank, found in part.get("values", {}).items():
        if ours.get(int(rank), found) != found:
            yield f"process {process} saves another value than process 0 at {show_keys(leaves[int(rank)])}"
    for number, chunks in part["alike"].items():
        if {int(chunk): one for chunk, one in chunks.items()} != sums.get(int(number)):
            path = show_keys(plan.leaves[int(number)].path)
            yield f"process {process} saves other elements than process 0 at {path}"
    for number, chunks in part["sums"].items():
        leaf, written = plan.leaves[int(number)], sums.setdefault(int(number), {})
        for chunk, one in chunks.items():
            if not leaf.is_chunked or int(chunk) in written:
                yield f"process {process} and another one write the same part of {show_keys(leaf.path)}"
            written[int(chunk)] = one


def _described(leaf: Leaf, shard: tuple[int, ...] | None) -> str:
    if leaf.dtype is None:
        return "a value"
    whole = f"{leaf.dtype}{list(leaf.shape)}"
    return whole if shard == leaf.shape else f"{whole} in shards of {list(shard or ())}"


def _at(of: tuple[str, ...]) -> str:
    kind, *names = of
    return {
        "class": "as its class",
        "step": "as its step",
        "leaf": f"at {show_keys(names)}",
        "dim": f"for the dim {''.join(names)}",
        "metadata": f"as metadata {''.join(names)!r}",
        "layout": "as its layout",
    }[kind]


def _value_sum(value: Any) -> str:
    held = on_host(value)
    if isinstance(held, (np.ndarray, jax.Array)):
        return array_digest(np.asarray(held, np.dtype(held.dtype).newbyteorder("=")))
    return checksum(msgpack.pack(held))
