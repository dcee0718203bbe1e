"""State classes: keyword-only constructors, frozen attributes, generics that follow their arguments."""

from jax import Array
from schemas.language import Nodes
from schemas.model import Block, Linear, TrainState
from schemas.optim import Adam, Run


def built(x: Array, linear: Linear) -> None:
    reveal_type(Linear(kernel=x, bias=x))  # Linear
    reveal_type(Linear(bias=x, kernel=x).kernel)  # Array
    reveal_type(TrainState(step=x, embed=x, blocks=(), rng=x, note="").lr)  # float
    reveal_type(Adam(count=x, mu=linear, nu=linear))  # Adam[Linear]
    reveal_type(Adam(count=x, mu=1.0, nu=2.0).mu)  # float
    reveal_type(Run(params=linear, opt=Adam(count=x, mu=linear, nu=linear)).best)  # Adam[Linear] | None
    reveal_type(Linear)  # def (*, kernel: Array, bias: Array) -> Linear; others: type[Linear]; ty: <class 'Linear'>


def attributes(train: TrainState, run: Run, nodes: Nodes) -> None:
    reveal_type(train.blocks)  # tuple[Block, ...]
    reveal_type(train.blocks[0].down.bias)  # Array
    reveal_type(train.rng)  # Array
    reveal_type(train.note)  # str
    reveal_type(run.opt.nu)  # Linear
    reveal_type(nodes.moments.seen)  # int
    reveal_type(nodes.options["rate"])  # float
    reveal_type(nodes.by_number)  # dict[int, Plain]
    reveal_type(nodes.boxed.inside.host)  # ndarray[tuple[Any, ...], dtype[Any]]; pyrefly: ndarray


def doubled(block: Block) -> Block:
    return Block(up=block.up, down=block.down)
