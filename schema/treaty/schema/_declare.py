"""What users write declarations with: @state, field, and the annotations Dims, Length, Keys, ArraySpec, Fields, FromInit."""

from collections.abc import Callable, Mapping
from types import EllipsisType
from typing import Any, Final, Literal, TypeAlias, TypeVar, dataclass_transform, overload

import attrs
from attrs import frozen

from treaty.schema import dtypes
from treaty.schema._errors import SchemaError
from treaty.schema._key_texts import is_key_text
from treaty.schema._showing import state_html, state_text
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
        own_repr = cls.__dict__.get("__repr__", state_text)
        built = attrs.frozen(eq=False, kw_only=True, repr=False, field_transformer=_can_be_given)(cls)
        setattr(built, "__repr__", own_repr)  # noqa: B010 - mypy lets nobody assign methods
        if not hasattr(built, "_repr_html_"):
            setattr(built, "_repr_html_", state_html)  # noqa: B010
        setattr(built, _STATE, options)
        import_code_on_first_use(built)
        return built

    return decorate if cls is None else decorate(cls)


def _can_be_given(cls: type, fields: list["attrs.Attribute[Any]"]) -> list["attrs.Attribute[Any]"]:
    """Every field has a keyword of its own in the constructor, which attrs would else say with a SyntaxError."""
    owners = {"self": ""}
    for field in fields:
        keyword = field.alias or field.name.lstrip("_")
        if keyword in owners:
            owner = owners[keyword]
            others = f"it is that of {owner} as well" if owner else "Python has it in the constructor"
            raise SchemaError(
                f"{cls.__name__}.{field.name}: expected a keyword that is free, got {keyword}: {others}; "
                f"write {keyword}_: ... = field(key={field.name!r})"
            )
        owners[keyword] = field.name
    return fields


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

    A plain word ties the dim of the same name: `Dims("vocab")`; `Dims(...)` ties all of them so. A dim that is tied to None
    is the child's own: `Dims(d_out=None)`, and `Dims(None)` for all that is not tied.
    """

    __slots__ = ("own", "rest", "ties")
    ties: Mapping[str, Expr]
    own: tuple[str, ...]
    rest: Literal["shared", "own"] | None  # what becomes of the dims that it does not name; None: nothing is said

    def __init__(self, /, *same: "str | EllipsisType | None", **tied: "str | int | None") -> None:
        for name in same:
            if name is not Ellipsis and name is not None and not isinstance(name, str):
                raise SchemaError(
                    f"Dims({name!r}): expected the name of a dim, ... for all of them, or None for none of them"
                )
        if Ellipsis in same and None in same:
            raise SchemaError("Dims(..., None): write ... to share the dims that are not named, or None to share none")
        self.rest = "shared" if Ellipsis in same else "own" if None in same else None
        self.own = tuple(spelled(name) for name, size in tied.items() if size is None)
        self.ties = {spelled(name): _size(f"Dims({name!r})", name) for name in same if isinstance(name, str)}
        self.ties |= {
            spelled(name): _size(f"Dims({name}={size!r})", size) for name, size in tied.items() if size is not None
        }

    def __repr__(self) -> str:
        rest = {"shared": ["..."], "own": ["None"], None: []}[self.rest]
        ties = [f"{name}={str(size)!r}" for name, size in self.ties.items()]
        return f"Dims({', '.join([*rest, *ties, *(f'{name}=None' for name in self.own)])})"


class Length:
    """The length of a list, `tuple[X, ...]` or dict: an int, a dim name or an expression."""

    __slots__ = ("size",)
    size: Expr

    def __init__(self, size: "str | int", /) -> None:
        self.size = _size(f"Length({size!r})", size)

    def __repr__(self) -> str:
        return f"Length({str(self.size)!r})"


class Keys:
    """The items of a field lie beside the other keys of its class: `Annotated[tuple[Block, ...], Keys("block_{i}")]`.

    `{i}` stands for the number of an item, `{key}` for the key of a `dict[str, X]`. One of them is needed, once.
    """

    __slots__ = ("text",)
    text: str

    def __init__(self, text: str, /) -> None:
        if not isinstance(text, str) or not is_key_text(text):
            raise SchemaError(
                f"Keys({text!r}): expected a name with one placeholder and no other braces: "
                "{i} for numbers, {key} for the keys of a dict[str, X]; write Keys('block_{i}')"
            )
        self.text = text

    def __repr__(self) -> str:
        return f"Keys({self.text!r})"


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


class FromInit:
    """The state of an optimizer, as its own init makes it of the field `of`: what hand-written types would say.

    `opt: Annotated[optax.OptState, FromInit(make_optimizer, of="params")]`. The function takes no arguments and returns the
    optimizer: whatever has an `init` of the params. It stands at the top level of a module. `of` may lead into a class: "model.params".
    """

    __slots__ = ("make", "of")
    make: Callable[[], Any]
    of: str

    def __init__(self, make: Callable[[], Any], /, *, of: str) -> None:
        if not callable(make):
            raise SchemaError(
                f"FromInit({make!r}): expected a function that makes the optimizer, and is called where types are read; "
                "write def make_optimizer(): return ... and FromInit(make_optimizer, of='params')"
            )
        if not isinstance(of, str) or not all(part.isidentifier() for part in of.split(".")):
            raise SchemaError(f"FromInit(of={of!r}): expected the name of a field, such as 'params' or 'model.params'")
        self.make = make
        self.of = of

    def __repr__(self) -> str:
        return f"FromInit({getattr(self.make, '__qualname__', repr(self.make))}, of={self.of!r})"


def _size(where: str, size: "str | int") -> Expr:
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise SchemaError(f"{where}: a size cannot be negative")
        return Int(size)
    if not isinstance(size, str):
        raise SchemaError(f"{where}: expected a name, an int or an expression, got {type(size).__name__}")
    return parse_expr(size)
