"""What restoring gives back is exactly the class, alias or template that went in."""

from typing import Any

from jax.sharding import Mesh
from schemas.model import Block, Linear, TrainState
from schemas.optim import Adam, Run

from treaty.runtime import (
    abstract,
    from_bytes,
    from_state_dict,
    nbytes,
    restore,
    save,
    save_async,
    shardings,
    to_bytes,
    to_state_dict,
)
from treaty.schema.keymap import KeyMap, Rule

state: dict[str, Any] = {}


def restored(template: TrainState, adam: Adam[Block], cls: type[Linear]) -> None:
    reveal_type(from_state_dict(Linear, state))  # Linear
    reveal_type(from_state_dict(TrainState, state, dims={"vocab": 8}, into="numpy"))  # TrainState
    reveal_type(from_state_dict(Adam[Linear], state))  # Adam[Linear]
    reveal_type(from_state_dict(template, state))  # TrainState
    reveal_type(from_state_dict(adam, state))  # Adam[Block]
    reveal_type(from_state_dict(cls, state))  # Linear
    reveal_type(from_state_dict(Run, state).opt.mu.kernel)  # Array
    reveal_type(to_state_dict(template))  # dict[str, Any]
    reveal_type(to_state_dict(adam, Adam[Block]))  # dict[str, Any]


def stored(template: TrainState, adam: Adam[Block], mesh: Mesh) -> None:
    reveal_type(to_bytes(template))  # bytes
    reveal_type(from_bytes(Linear, b"", into="numpy"))  # Linear
    reveal_type(from_bytes(template, b""))  # TrainState
    reveal_type(restore("train.msgpack", TrainState))  # TrainState
    reveal_type(restore("run/step-1", Adam[Linear], at="opt", mesh=mesh, rules={"d_in": "model"}))  # Adam[Linear]
    reveal_type(restore("run/step-1", adam))  # Adam[Block]
    reveal_type(restore("llama/", Linear, keymap=KeyMap([Rule("w", "kernel")]), dims={"d_in": 4}))  # Linear
    reveal_type(save("train.msgpack", template))  # None
    reveal_type(save("x.safetensors", template, keymap=KeyMap([Rule("w", "kernel")])))  # None
    reveal_type(save_async("run/step-1", template).done())  # bool
    reveal_type(shardings(TrainState, mesh, {"vocab": "model"}, {"vocab": 8}).embed)  # Array


def without_values() -> None:
    reveal_type(abstract(Linear, d_in=4, d_out=8))  # Linear
    reveal_type(abstract(Adam[Linear], d_in=4, d_out=8))  # Adam[Linear]
    reveal_type(abstract(TrainState, vocab=8, d_model=4, n_layers=2).blocks[0].up)  # Linear
    reveal_type(nbytes(TrainState, vocab=8, d_model=4, n_layers=2))  # int
