"""to_bytes and from_bytes: Flax's bytes, checked on the way out and on the way in."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import serialization
from jax import Array
from jaxtyping import Float32, Key

from treaty.generator import load
from treaty.runtime import CorruptCheckpointError, StateMismatchError, abstract, from_bytes, to_bytes, to_state_dict
from treaty.runtime import serialization as drop_in
from treaty.schema import Dims, Length, TreatyError, field, state
from treaty.schema.library.optax import AdamState


@state
class Layer:
    kernel: Float32[np.ndarray, "d_in d_out"]
    bias: Float32[np.ndarray, "d_out"]


@state
class Model:
    layers: Annotated[tuple[Layer, ...], Length("n"), Dims(d_in="d", d_out="d")]
    steps: int = 0
    note: str = field(default="", static=True)


@state
class Device:
    weight: Float32[Array, "d"]
    rng: Key[Array, ""]
    opt: AdamState[Layer]


load(Model)
load(Device)


def layer(i: float = 0, d: int = 4) -> Layer:
    return Layer(kernel=np.full((d, d), i, np.float32), bias=np.full(d, -i, np.float32))


def model(count: int = 12, **changes: Any) -> Model:
    return Model(layers=tuple(layer(i) for i in range(count)), **changes)


def device() -> Device:
    adam = AdamState(count=jnp.int32(3), mu=layer(1), nu=layer(2))
    return Device(weight=jnp.arange(3.0), rng=jax.random.key(7), opt=adam)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 11, 120])
def test_the_bytes_are_those_of_flax(count: int) -> None:
    value = model(count, steps=count, note="naïve")
    assert to_bytes(value) == serialization.to_bytes(to_state_dict(value))


@pytest.mark.parametrize("count", [0, 1, 3, 4, 11, 120])
def test_a_value_comes_back(count: int) -> None:
    value = model(count)
    back = from_bytes(Model, to_bytes(value))
    assert jax.tree.all(jax.tree.map(np.array_equal, back, value))


def test_host_arrays_are_views_of_the_bytes() -> None:
    data = to_bytes(model())
    back = from_bytes(Model, data, into="numpy")
    start = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    for leaf in jax.tree.leaves(back.layers):
        assert start <= leaf.__array_interface__["data"][0] < start + len(data)
        assert not leaf.flags.writeable


def test_jax_fields_hold_jax_arrays_and_into_numpy_keeps_them_on_the_host() -> None:
    data = to_bytes(device())
    assert data == serialization.to_bytes(to_state_dict(device()))
    back = from_bytes(Device, data)
    assert isinstance(back.weight, Array)
    assert isinstance(back.opt.count, Array)
    assert isinstance(back.opt.mu.kernel, np.ndarray)
    assert jax.random.key_data(back.rng).tolist() == jax.random.key_data(jax.random.key(7)).tolist()
    assert isinstance(from_bytes(Device, data, into="numpy").weight, np.ndarray)


def test_any_buffer_will_do() -> None:
    data = to_bytes(model(9))
    for buffer in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8), memoryview(data).cast("b")):
        assert to_bytes(from_bytes(Model, buffer, into="numpy")) == data


def test_a_template_fixes_shapes_and_static_fields() -> None:
    data = to_bytes(model(5, note="a"))
    assert from_bytes(model(5, note="a"), data).note == "a"
    with pytest.raises(StateMismatchError, match=r"expected 6 items as in the template, got 5 items at \$\.layers"):
        from_bytes(model(6, note="a"), data)
    with pytest.raises(StateMismatchError, match=r"expected 'b' as in the template, got 'a' at \$\.note"):
        from_bytes(model(5, note="b"), data)


def test_what_could_not_be_restored_is_not_written() -> None:
    layers = [layer(i) for i in range(12)]
    layers[7] = Layer(kernel=np.zeros((4, 5), np.float32), bias=np.zeros(4, np.float64))
    with pytest.raises(StateMismatchError) as caught:
        to_bytes(Model(layers=tuple(layers)))
    assert str(caught.value) == (
        "expected float32[d_in=4, d_out=4], got float32[4, 5] at $.layers[7].kernel\n"
        "expected float32[d_out=4], got float64[4] at $.layers[7].bias"
    )


def test_all_layers_alike_but_wrong_are_not_written_either() -> None:
    wrong = Layer(kernel=np.zeros((4, 5), np.float32), bias=np.zeros(5, np.float32))
    with pytest.raises(
        StateMismatchError, match=r"expected float32\[d_in=5, d_out=5\], got float32\[4, 5\] at \$\.layers\[0\]"
    ):
        to_bytes(Model(layers=(wrong,) * 12))


def test_shape_and_dtype_of_the_bytes_must_be_those_of_the_class() -> None:
    data = serialization.to_bytes({"layers": {}, "steps": 1.5, "note": ""})
    with pytest.raises(StateMismatchError, match=r"expected int, got float 1.5 at \$\.steps"):
        from_bytes(Model, data, into="numpy")
    state = to_state_dict(model())
    state["layers"]["3"]["bias"] = np.zeros(4, np.float16)
    with pytest.raises(
        StateMismatchError, match=r"expected float32\[d_out=4\], got float16\[4\] at \$\.layers\[3\]\.bias"
    ):
        from_bytes(Model, serialization.to_bytes(state), into="numpy")
    with pytest.raises(StateMismatchError, match=r"expected n=11 items, got 12 items at \$\.layers"):
        from_bytes(Model, to_bytes(model()), dims={"n": 11}, into="numpy")


def test_layers_that_are_not_alike_are_written_one_by_one() -> None:
    in_other_order = Layer(kernel=np.asfortranarray(np.arange(16, dtype=np.float32).reshape(4, 4)), bias=layer().bias)
    value = Model(layers=(layer(), layer(), in_other_order, layer(5)))
    back = from_bytes(Model, to_bytes(value), into="numpy")
    assert np.array_equal(back.layers[2].kernel, in_other_order.kernel)


def test_byte_swapped_arrays_are_refused() -> None:
    swapped = Layer(kernel=layer(2).kernel.astype(">f4"), bias=layer(2).bias)
    with pytest.raises(StateMismatchError, match=r"got byte-swapped float32\[4, 4\] at \$\.layers\[2\]\.kernel"):
        to_bytes(Model(layers=(layer(), layer(), swapped, layer(5))))


def test_the_first_of_alike_layers_may_be_out_of_order_alone_or_not() -> None:
    for odd in (0, 5):
        layers = [layer(i) for i in range(12)]
        layers[odd] = Layer(kernel=np.arange(16, dtype=np.float32).reshape(4, 4).T, bias=layer().bias)
        back = from_bytes(Model, to_bytes(Model(layers=tuple(layers))), into="numpy")
        assert np.array_equal(back.layers[odd].kernel, layers[odd].kernel)


def test_tied_arrays_are_written_twice() -> None:
    shared = np.arange(4, dtype=np.float32)
    tied = Layer(kernel=np.zeros((4, 4), np.float32), bias=shared)
    back = from_bytes(Model, to_bytes(Model(layers=(tied,) * 12)), into="numpy")
    assert all(np.array_equal(one.bias, shared) for one in back.layers)


def test_abstract_and_traced_arrays_have_nothing_to_write() -> None:
    with pytest.raises(TreatyError, match="expected arrays with contents, got abstract ones"):
        to_bytes(abstract(Model, d=4, n=2))
    with pytest.raises(
        TreatyError, match="expected arrays with contents, got traced ones; save outside of jit and grad"
    ):
        jax.jit(lambda value: len(to_bytes(value)))(device())


def test_an_int_that_messagepack_cannot_hold_is_refused() -> None:
    with pytest.raises(TreatyError, match="expected what MessagePack can hold, got Integer value out of range"):
        to_bytes(model(1, steps=2**64))


def test_damaged_bytes_say_where() -> None:
    data = to_bytes(model(2))
    with pytest.raises(
        CorruptCheckpointError,
        match=r"expected \d+ bytes of an extension, got \d+ at byte \d+, \$\.layers\['0'\]\.bias",
    ):
        from_bytes(Model, data[:130])
    with pytest.raises(ValueError, match=r"expected the end, got 1 more bytes at byte \d+, \$"):
        from_bytes(Model, data + b"\0")


def test_items_stored_out_of_order_come_back_in_order() -> None:
    stored = to_state_dict(model(120))
    layers = list(stored["layers"].items())
    stored["layers"] = dict(layers[:50] + layers[90:] + layers[50:90])
    back = from_bytes(Model, serialization.to_bytes(stored), into="numpy")
    assert [one.kernel[0, 0] for one in back.layers] == list(range(120))
    swapped = [*layers[:60], layers[61], layers[60], *layers[62:]]
    back = from_bytes(Model, serialization.to_bytes({**stored, "layers": dict(swapped)}), into="numpy")
    assert [one.kernel[0, 0] for one in back.layers] == list(range(120))


def test_alike_layers_with_arrays_over_the_chunk_size_are_split_as_flax_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialization, "MAX_CHUNK_SIZE", 20)
    monkeypatch.setattr(drop_in, "MAX_CHUNK_SIZE", 20)
    value = model(50)
    data = drop_in.to_bytes(value)
    assert data == serialization.to_bytes(to_state_dict(value))
    assert jax.tree.all(jax.tree.map(np.array_equal, drop_in.from_bytes(value, data), value))
