import jax
import jax.numpy as jnp
from state import Block, Linear, TrainState

from treaty.runtime import StateMismatchError, abstract, from_state_dict, nbytes, restore, save, to_state_dict


def linear(d_in: int, d_out: int) -> Linear:
    return Linear(kernel=jnp.ones((d_in, d_out)), bias=jnp.zeros(d_out))


train = TrainState(
    step=jnp.int32(100),
    embed=jnp.zeros((32, 8), jnp.bfloat16),
    blocks=tuple(Block(up=linear(8, 32), down=linear(32, 8)) for _ in range(2)),
    rng=jax.random.key(0),
    note="first run",
)

sizes = {"vocab": 32, "d_model": 8, "n_layers": 2}
save("train.msgpack", train)  # the bytes that flax.serialization writes; there as a whole, or not at all
restored = restore("train.msgpack", TrainState, dims=sizes)  # a TrainState, to mypy and at run time
print("step", int(restored.step), "with", len(restored.blocks), "blocks")

shapes = abstract(TrainState, **sizes)  # no arrays, no init
print("embed is", shapes.embed.shape, "and all arrays take", nbytes(TrainState, **sizes), "bytes")

# The state of another model: one layer is wider, one array has another dtype, one is gone.
saved = to_state_dict(train)  # nested dicts, laid out as flax.serialization lays them out
saved["blocks"]["1"]["up"] = to_state_dict(linear(8, 40))
saved["embed"] = saved["embed"].astype(jnp.float32)
del saved["blocks"]["0"]["down"]["bias"]
try:
    from_state_dict(TrainState, saved)
except StateMismatchError as error:
    print(error)
