"""`python -m tests.report.picture`: the picture of docs/report.md, taken in Chromium of a small model that trained for a while."""

import tempfile
from pathlib import Path
from typing import Annotated, Final

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import BFloat16, Float32, Int32, Key

from tests.report.browser import browser
from treaty.generator import load
from treaty.runtime import report, save
from treaty.schema import Dims, FromInit, Length, state

PICTURE: Final = Path(__file__).parents[2] / "docs" / "pictures" / "report.webp"
_WIDTH, _HEIGHT = 1180, 1740


def make_optimizer() -> optax.GradientTransformation:
    return optax.adamw(1e-3)


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Block:
    up: Annotated[Linear, Dims(d_in="d_model", d_out="4*d_model")]
    down: Annotated[Linear, Dims(d_in="4*d_model", d_out="d_model")]


@state
class Params:
    embed: BFloat16[Array, "vocab d_model"]
    blocks: Annotated[tuple[Block, ...], Length("n_layers"), Dims("d_model")]


@state
class TrainState:
    step: Int32[Array, ""]
    params: Annotated[Params, Dims(...)]
    opt: Annotated[optax.OptState, FromInit(make_optimizer, of="params")]
    rng: Key[Array, ""]


def _linear(key: Array, d_in: int, d_out: int) -> Linear:
    return Linear(kernel=jax.random.normal(key, (d_in, d_out)) / d_in**0.5, bias=jnp.zeros(d_out))


def _params(key: Array, d: int = 128, layers: int = 12) -> Params:
    first, *keys = jax.random.split(key, 2 * layers + 1)
    pairs = zip(keys[::2], keys[1::2], strict=True)
    blocks = tuple(Block(up=_linear(one, d, 4 * d), down=_linear(other, 4 * d, d)) for one, other in pairs)
    return Params(embed=jax.random.normal(first, (4000, d)).astype(jnp.bfloat16), blocks=blocks)


def _states(folder: Path) -> tuple[Path, Path]:
    """Where two states lie, a few steps apart."""
    load(TrainState)
    key, optimizer = jax.random.key(0), make_optimizer()
    params = _params(key)
    opt = optimizer.init(params)
    places = folder / "1100", folder / "1200"
    for number, place in enumerate(places):
        for _ in range(3):
            grads = jax.tree.map(lambda one: 0.01 * jnp.sin(40 * one), params)
            updates, opt = optimizer.update(grads, opt, params)
            params = optax.apply_updates(params, updates)
        step = jnp.int32(1100 + 100 * number)
        save(place, TrainState(step=step, params=params, opt=opt, rng=jax.random.fold_in(key, number)))
    return places


def main() -> None:
    with tempfile.TemporaryDirectory() as name, browser(Path(name, "profile")) as chromium:
        before, after = _states(Path(name))
        page = Path(name, "page.html")
        page.write_text(report(before, after, verify=True).replace(f"{name}/", "run/").replace("__main__:", "state:"))
        chromium.open(page, _WIDTH)
        chromium.run("document.querySelectorAll('tr.row')[2].click()")
        chromium.screenshot(PICTURE, (_WIDTH, _HEIGHT))
    print(f"wrote {PICTURE}, {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
