"""Where places disagree on a size, the error is at those that stand alone, not at all that come after the first."""

from typing import Annotated, Any

import numpy as np
import pytest
from jaxtyping import Float32

from treaty.generator import load
from treaty.runtime import StateMismatchError, explain, from_state_dict
from treaty.schema import Dims, Length, state


@state
class Layer:
    kernel: Float32[np.ndarray, "d d"]
    bias: Float32[np.ndarray, "d"]


@state
class Model:
    embed: Float32[np.ndarray, "vocab d"]
    head: Float32[np.ndarray, "d vocab"]
    counts: Float32[np.ndarray, "vocab"]
    pairs: Float32[np.ndarray, "2*vocab"]
    layers: Annotated[tuple[Layer, ...], Length("n"), Dims("d")]
    scales: Float32[np.ndarray, "n"] | None


load(Model)


def model(**changes: Any) -> dict[str, Any]:
    layer = {"kernel": np.zeros((4, 4), np.float32), "bias": np.zeros(4, np.float32)}
    fields = {"embed": (16, 4), "head": (4, 16), "counts": (16,), "pairs": (32,), **changes}
    arrays = {name: np.zeros(shape, np.float32) for name, shape in fields.items()}
    return {**arrays, "layers": {str(n): dict(layer) for n in range(3)}, "scales": None}


def said(saved: dict[str, Any], **dims: int) -> list[str]:
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(Model, saved, dims=dims or None)
    assert tuple(caught.value.mismatches) == explain(Model, saved, dims=dims or None)
    return str(caught.value).splitlines()


def test_the_one_that_is_wrong_is_told() -> None:
    assert said(model(embed=(17, 4))) == ["expected float32[vocab=16, d=4], got float32[17, 4] at $.embed"]
    assert said(model(counts=(17,))) == ["expected float32[vocab=16], got float32[17] at $.counts"]


def test_layers_have_a_voice_each() -> None:
    assert said(model(embed=(16, 5), head=(5, 16))) == [
        "expected float32[vocab=16, d=4], got float32[16, 5] at $.embed",
        "expected float32[d=4, vocab=16], got float32[5, 16] at $.head",
    ]
    saved = model()
    saved["layers"]["0"]["bias"] = np.zeros(5, np.float32)
    assert said(saved) == ["expected float32[d=4], got float32[5] at $.layers[0].bias"]


def test_a_size_that_no_dim_gives_has_no_voice() -> None:
    assert said(model(pairs=(33,))) == ["expected float32[2*vocab=32], got float32[33] at $.pairs"]


def test_of_as_many_the_first_is_right() -> None:
    saved = model(embed=(16, 4), head=(4, 17), counts=(16,), pairs=(34,))
    assert said(saved) == [
        "expected float32[d=4, vocab=16], got float32[4, 17] at $.head",
        "expected float32[2*vocab=32], got float32[34] at $.pairs",
    ]
    assert said(model(embed=(17, 4), head=(4, 17)))[0].endswith("at $.counts")


def test_what_the_caller_says_is_no_vote() -> None:
    assert said(model(), vocab=17)[:2] == [
        "expected float32[vocab=17, d=4], got float32[16, 4] at $.embed",
        "expected float32[d=4, vocab=17], got float32[4, 16] at $.head",
    ]
