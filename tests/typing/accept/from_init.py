"""What is annotated beside FromInit may be anything: init says the type."""

from collections.abc import Callable
from typing import Annotated, Any, Protocol, TypeAlias

from schemas.model import Linear

from treaty.schema import Dims, FromInit, state


class OptState(Protocol):
    def update(self) -> None: ...


AnyState: TypeAlias = int | str | tuple[float, ...]


def make_optimizer() -> Any: ...


@state
class Train:
    params: Annotated[Linear, Dims(...)]
    one: Annotated[OptState, FromInit(make_optimizer, of="params")]
    two: Annotated[AnyState, FromInit(make_optimizer, of="params")]
    three: Annotated[Callable[[int], int], FromInit(make_optimizer, of="params")]
