"""What restoring gives back is exactly the class, alias or template that went in."""

from typing import Any

from schemas.model import Block, Linear, TrainState
from schemas.optim import Adam, Run

from treaty.runtime import abstract, from_state_dict, nbytes, to_state_dict

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


def without_values() -> None:
    reveal_type(abstract(Linear, d_in=4, d_out=8))  # Linear
    reveal_type(abstract(Adam[Linear], d_in=4, d_out=8))  # Adam[Linear]
    reveal_type(abstract(TrainState, vocab=8, d_model=4, n_layers=2).blocks[0].up)  # Linear
    reveal_type(nbytes(TrainState, vocab=8, d_model=4, n_layers=2))  # int
