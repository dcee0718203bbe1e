"""Classes of another schema module: their code is imported from that module's generated code."""

from typing import Annotated

from jax import Array
from jaxtyping import Int32

from tests.generator.cases.generics.schema import Adam, Params
from tests.generator.cases.train_state import schema as other
from treaty.schema import Dims, Length, state

__treaty__ = "tests.generator.cases.cross_module.expected"


@state
class Run:
    step: Int32[Array, ""]
    params: Annotated[Params, Dims(...)]
    blocks: Annotated[list[other.Block], Length("n"), Dims("d_model")]
    opt: Annotated[Adam[other.Block], Dims(None)]
