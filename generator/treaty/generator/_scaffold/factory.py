"""The factory that makes a state: what its sizes are, and what it returns for given ones, without making arrays."""

import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from attrs import frozen

from treaty.generator._scaffold.align import Sighting
from treaty.generator._scaffold.leaves import named_leaves, opaque_leaves
from treaty.generator._scaffold.runtime_door import runtime
from treaty.generator._worker import is_users_file
from treaty.schema import TreatyError
from treaty.schema._classes import one_line, relative
from treaty.schema.outline import Outline, OutlineLeaf

_MOST_REAL: Final = 2**24  # bytes of real arrays; a table or two is no allocation
_ABSTRACT: Final = (
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "ConcretizationTypeError",
    "NonConcreteBooleanIndexError",
)


class FactoryError(TreatyError):
    """A factory that fails with the sizes that it was given."""


@frozen
class StateFactory:
    """A function or class that returns a state. `sizes` are its parameters that are whole numbers, with their defaults."""

    target: str
    call: Callable[..., Any]
    sizes: Mapping[str, int]
    needed: tuple[str, ...]  # parameters without a default

    @classmethod
    def named(cls, target: str) -> Self:
        return cls.of(target, runtime("named")(target, "TARGET"))

    @classmethod
    def of(cls, target: str, call: Any) -> Self:
        if not callable(call):
            raise TreatyError(f"{target}: expected a function that returns the state, got {type(call).__name__}")
        named = [one for one in _parameters(call) if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        if positional := [one.name for one in named if one.kind is one.POSITIONAL_ONLY and one.default is one.empty]:
            raise TreatyError(f"{target}: {', '.join(positional)}: expected parameters that can be given by name")
        sizes = {
            one.name: one.default for one in named if type(one.default) is int and one.kind is not one.POSITIONAL_ONLY
        }
        return cls(target, call, sizes, tuple(one.name for one in named if one.default is one.empty))

    def sighting(self, sizes: Mapping[str, int]) -> Sighting:
        """What it returns for sizes. Raises FactoryError."""
        import jax

        outlines: list[Outline] = []

        def traced() -> tuple[()]:
            outlines.append(runtime("outline_of")(self.call(**sizes)))
            return ()

        try:
            jax.eval_shape(traced)
        except TreatyError as error:
            raise FactoryError(f"{self.called(sizes)}: {error}") from error
        except (Exception, SystemExit) as error:  # it is the user's code
            raise FactoryError(self._failure(error, sizes)) from error
        return Sighting(dict(sizes), outlines[-1])

    def filled(self, sizes: Mapping[str, int]) -> Any:
        """The state for sizes, with arrays of made-up numbers: to make those of the factory takes a compiler, and long."""
        import jax

        kept: list[Any] = []

        def traced() -> tuple[()]:
            kept.append(self.call(**sizes))
            return ()

        jax.eval_shape(traced)
        return runtime("filled")(kept[-1])

    def called(self, sizes: Mapping[str, int]) -> str:
        """The call, as people write it."""
        return f"{self.target}({', '.join(f'{name}={size}' for name, size in sizes.items())})"

    def _failure(self, error: BaseException, sizes: Mapping[str, int]) -> str:
        where = _place(error)
        names = {cls.__name__ for cls in type(error).__mro__}
        if names.intersection(_ABSTRACT):
            return (
                f"{self.called(sizes)}: {where}needs the numbers in an array, and is run without any (under jax.eval_shape): "
                f"make Python values of sizes only, and use jax.numpy for arrays ({type(error).__name__})"
            )
        return f"{self.called(sizes)}: {where}{type(error).__name__}: {one_line(error)}"


def _parameters(call: Callable[..., Any]) -> list[inspect.Parameter]:
    """Those of a call; of a class whose metaclass takes anything, as that of nnx does, those of its own `__init__`."""
    is_hidden = isinstance(call, type) and type(call).__call__ is not type.__call__
    try:
        found = list(inspect.signature(call.__init__ if is_hidden else call).parameters.values())
    except (TypeError, ValueError):
        return []
    return found[1:] if is_hidden else found


def check_leaves(sighting: Sighting, target: str) -> None:
    """That all leaves can be stored, and that none was allocated in earnest."""
    if wrong := list(opaque_leaves(sighting.outline, f"{target}: ")):
        raise TreatyError("\n".join(wrong))
    leaves = named_leaves(sighting.outline)
    real = [(shown, leaf.nbytes) for shown, leaf in leaves if isinstance(leaf, OutlineLeaf) and leaf.nbytes]
    if sum(size for _, size in real) > _MOST_REAL:
        shown, size = max(real, key=lambda one: one[1])
        raise TreatyError(
            f"{target}: expected abstract arrays, got {len(real)} real ones, the largest of {size} bytes at state{shown}; "
            "make them inside the factory, with jax.numpy"
        )


def _place(error: BaseException) -> str:
    """The last line of the user's own that ran."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_users_file(frame.filename):
            return f"{relative(frame.filename)}:{frame.lineno}: "
    return ""
