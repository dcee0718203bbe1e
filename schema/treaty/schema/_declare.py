"""What users write declarations with: @state, field, and the annotations Dims, Length, ArraySpec, Fields."""

from collections.abc import Callable, Mapping
from types import EllipsisType
from typing import Any, Final, TypeAlias, TypeVar, dataclass_transform, overload

import attrs
from attrs import frozen

from treaty.schema import dtypes
from treaty.schema._errors import SchemaError
from treaty.schema.dims import Dim, Expr, Int, parse_dims, parse_expr, spelled
from treaty.schema.modules import import_code_on_first_use

_T = TypeVar("_T")
_Names: TypeAlias = "tuple[str, ...] | list[str]"  # and no Iterable, which a single str is too
_METADATA: Final = "treaty"
_STATE: Final = "__treaty_state__"
_NO_VERSION: Final = (
    "state(version=...): revisions are not counted by hand any more; write @state alone, and run: treaty lock"
)


@frozen
class FieldOptions:
    """What `field(...)` leaves in the attrs metadata for the reader."""

    key: str | None = None
    static: bool = False
    aliases: tuple[str, ...] = ()
    cast_from: tuple[str, ...] = ()


@frozen
class StateOptions:
    """What `@state(...)` leaves on the class for the reader."""

    reserved: tuple[str, ...] = ()


@overload
def field(
    *,
    default: _T,
    key: str | None = None,
    static: bool = False,
    aliases: _Names = (),
    cast_from: _Names = (),
    validator: Callable[..., Any] | None = None,
) -> _T: ...
@overload
def field(
    *,
    factory: Callable[[], _T],
    key: str | None = None,
    static: bool = False,
    aliases: _Names = (),
    cast_from: _Names = (),
    validator: Callable[..., Any] | None = None,
) -> _T: ...
@overload
def field(
    *,
    key: str | None = None,
    static: bool = False,
    aliases: _Names = (),
    cast_from: _Names = (),
    validator: Callable[..., Any] | None = None,
) -> Any: ...
def field(
    *,
    default: Any = attrs.NOTHING,
    factory: Callable[[], Any] | None = None,
    key: str | None = None,
    static: bool = False,
    aliases: _Names = (),
    cast_from: _Names = (),
    validator: Callable[..., Any] | None = None,
) -> Any:
    """A field with options: `key` is the stored name, `static` makes it pytree metadata.

    For checkpoints of earlier revisions: `aliases` are keys that the field had before, `cast_from` dtypes that are converted,
    and a default or factory fills in where the checkpoint's schema had no such field.
    """
    if key is not None and not isinstance(key, str):
        raise SchemaError(f"field(key={key!r}): expected a string")
    options = FieldOptions(key, static, _names("field(aliases=", aliases), _names("field(cast_from=", cast_from))
    return attrs.field(default=default, factory=factory, validator=validator, metadata={_METADATA: options})


@overload
def state(cls: type[_T], /) -> type[_T]: ...
@overload
def state(*, reserved: _Names = ()) -> Callable[[type[_T]], type[_T]]: ...
@dataclass_transform(frozen_default=True, eq_default=False, kw_only_default=True, field_specifiers=(field, attrs.field))
def state(
    cls: type[_T] | None = None, /, *, reserved: _Names = (), **removed: object
) -> type[_T] | Callable[[type[_T]], type[_T]]:
    """Declare a state class: attrs.frozen with slots, keyword-only, compared by identity.

    Keyword-only, because two arrays of one shape given in the wrong order are a mistake no check can see. `reserved` are keys
    that the class had once: what earlier checkpoints hold under them is dropped, and no field may take them again.
    """
    if "version" in removed:
        raise SchemaError(_NO_VERSION)
    if removed:
        raise TypeError(f"state() got an unexpected keyword argument {next(iter(removed))!r}")
    options = StateOptions(_names("state(reserved=", reserved))

    def decorate(cls: type[_T]) -> type[_T]:
        built = attrs.frozen(eq=False, kw_only=True)(cls)
        setattr(built, _STATE, options)
        import_code_on_first_use(built)
        return built

    return decorate if cls is None else decorate(cls)


def state_options(cls: type) -> StateOptions | None:
    """What was given to @state on this very class; None where the class is not declared with it."""
    found = cls.__dict__.get(_STATE)
    return found if isinstance(found, StateOptions) else None


def _names(where: str, given: _Names) -> tuple[str, ...]:
    """Several names, as the reader checks them. A single text is a mistake: it would be taken letter by letter."""
    if isinstance(given, str):
        raise SchemaError(f"{where}{given!r}): expected a tuple of strings; write ({given!r},)")
    if not isinstance(given, (tuple, list)) or not all(isinstance(one, str) for one in given):
        raise SchemaError(f"{where}{given!r}): expected a tuple of strings")
    return tuple(given)


def options_of(attribute: "attrs.Attribute[Any]") -> FieldOptions:
    found = attribute.metadata.get(_METADATA)
    return found if isinstance(found, FieldOptions) else FieldOptions()


class Dims:
    """Tie a child's dims to this class's: `Annotated[Linear, Dims(d_in="d_model", d_out="4*d_model")]`.

    A plain word ties the dim of the same name: `Dims("vocab")`; `Dims(...)` ties all of them so.
    """

    __slots__ = ("every", "ties")
    every: bool
    ties: Mapping[str, Expr]

    def __init__(self, /, *same: "str | EllipsisType", **tied: "str | int") -> None:
        for name in same:
            if name is not Ellipsis and not isinstance(name, str):
                raise SchemaError(f"Dims({name!r}): expected the name of a dim, or ... for all of them")
        self.every = Ellipsis in same
        self.ties = {spelled(name): _size(f"Dims({name!r})", name) for name in same if isinstance(name, str)}
        self.ties |= {spelled(name): _size(f"Dims({name}={size!r})", size) for name, size in tied.items()}

    def __repr__(self) -> str:
        ties = [f"{name}={str(size)!r}" for name, size in self.ties.items()]
        return f"Dims({', '.join([*(['...'] if self.every else []), *ties])})"


class Length:
    """The length of a list, `tuple[X, ...]` or dict: an int, a dim name or an expression."""

    __slots__ = ("size",)
    size: Expr

    def __init__(self, size: "str | int", /) -> None:
        self.size = _size(f"Length({size!r})", size)

    def __repr__(self) -> str:
        return f"Length({str(self.size)!r})"


@frozen
class Variable:
    """In place of a type argument: the class is read with its type variables as they are."""

    number: int


class ArraySpec:
    """dtype and dims of an array: `Annotated[Array, ArraySpec("float8_e4m3", "a b")]`.

    For dtypes that jaxtyping has no name for, and for keys of one implementation: `ArraySpec("key<rbg>", "")`.
    """

    __slots__ = ("dims", "dtype")
    dtype: str
    dims: tuple[Dim, ...]

    def __init__(self, dtype: str, dims: str = "", /) -> None:
        if dtypes.key_impl(dtype) is None and dtype not in dtypes.BY_NAME:
            raise SchemaError(f"ArraySpec({dtype!r}): unknown dtype; known: {', '.join(dtypes.BY_NAME)}, key<impl>")
        self.dtype = dtype
        self.dims = parse_dims(dims)

    def __repr__(self) -> str:
        return f"ArraySpec({self.dtype!r}, {' '.join(map(str, self.dims))!r})"


class Fields:
    """The field types of a class that another library owns, in the scope of the class that uses it.

    `Annotated[optax.ScaleByAdamState, Fields(count=Int32[Array, ""], mu=Params, nu=Params)]`
    """

    __slots__ = ("types",)
    types: Mapping[str, Any]

    def __init__(self, /, **types: Any) -> None:
        self.types = types

    def __repr__(self) -> str:
        return f"Fields({', '.join(self.types)})"


def _size(where: str, size: "str | int") -> Expr:
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise SchemaError(f"{where}: a size cannot be negative")
        return Int(size)
    if not isinstance(size, str):
        raise SchemaError(f"{where}: expected a name, an int or an expression, got {type(size).__name__}")
    return parse_expr(size)
