"""Types -> expressions: how a value of each type is written, read, and made abstract, and what mypy calls it."""

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Final, assert_never

from treaty.generator._dims_plan import size_text
from treaty.generator._layout import WIDTH, Call, Comprehension, Expression, Keyword, OrNone, Text
from treaty.generator._module_scope import ModuleScope
from treaty.generator._names import is_name, literal, local, loop_variable
from treaty.generator._sizes import left_out
from treaty.schema import ir
from treaty.schema.dims import Name, render
from treaty.schema.dtypes import BY_NAME

_READ_SCALAR: Final[Mapping[str, str]] = {
    "int": "integer",
    "float": "floating",
    "bool": "boolean",
    "str": "text",
    "bytes": "binary",
    "complex": "complex_number",
    "none": "none",
}
_ZERO: Final[Mapping[str, str]] = {
    "int": "0",
    "float": "0.0",
    "bool": "False",
    "str": '""',
    "bytes": 'b""',
    "complex": "0j",
    "none": "None",
}
# Characters of a generic class in an annotation, and in the line that gives a longer one a name: so that both lines fit.
_LONGEST_TYPE: Final = 68
_LONGEST_ARGUMENT: Final = 30
_OVERLOADED: Final = ("_codec.indexed", "dict")  # not every type checker picks the overload of a function it is given


def write(scope: ModuleScope, type: ir.Type, at: str, depth: int = 0) -> Expression:
    """The state of the value that `at` names."""
    if isinstance(type, ir.Key):
        return Call("_codec.write_key", (Text(at),))
    if isinstance(type, ir.Enum):
        return Call("_codec.member_name", (Text(at), Text(scope.symbol(type.symbol))))
    if isinstance(type, ir.Node):
        return Call(scope.function(type.cls, "to_state_dict"), (Text(at),))
    if isinstance(type, ir.Untyped):
        return Call("_codec.write_untyped", (Text(at),))
    if isinstance(type, ir.Optional):
        return _optional(write(scope, type.item, at, depth), at)
    x = loop_variable(depth)
    if isinstance(type, ir.Sequence):
        item = write(scope, type.item, x, depth + 1)
        items = Call("_codec.exact_tuple" if type.immutable else "_codec.exact_list", (Text(at),))
        if isinstance(item, Call) and str(item.args[0]) == x and len(item.args) == 1:
            return Call("_codec.indexed", (items, Text(item.head)))
        return Call("_codec.indexed", (items if str(item) == x else Comprehension(item, x, items),))
    if isinstance(type, ir.Dict):
        k = x.replace("x", "k")
        key = f"{k}: " if type.key == "str" else f"str({k}): "
        value = write(scope, type.value, x, depth + 1)
        entries = Call(f"_codec.{type.key}_keyed", (Text(at),))
        if str(value) == x and type.key == "str":
            return Call("dict", (entries,))
        return Comprehension(value, f"{k}, {x}", entries, "{}", key)
    if isinstance(type, (ir.Array, ir.Fitted, ir.Scalar, ir.NumpyScalar)):
        return Text(at)
    if isinstance(type, (ir.Tuple, ir.Partial)):
        raise _not_lowered(type)
    assert_never(type)


def read(scope: ModuleScope, type: ir.Type, at: str, unsure: frozenset[str], depth: int = 0) -> Expression:
    """The value made from the state that `at` names, checked."""
    if isinstance(type, ir.Array):
        function = "_codec.host" if type.host else "put"
        return Call(function, (Text(at), Text(scope.use_dtype(type.dtype)), _shape(type, unsure)))
    if isinstance(type, ir.Key):
        impl = (Text(literal(type.impl)),) if type.impl else ()
        return Call("_codec.read_key", (Text(at), Text("put"), _shape(type, unsure), *impl))
    if isinstance(type, ir.Fitted):
        return Call(
            "_codec.fitted",
            (Text(at), Text("put"), Text(scope.use_dtype(type.dtype)), *_asked(scope, type, _shape(type, unsure))),
        )
    if isinstance(type, ir.Scalar):
        return Call(f"_codec.{_READ_SCALAR[type.type]}", (Text(at),))
    if isinstance(type, ir.NumpyScalar):
        return Call("_codec.numpy_scalar", (Text(at), Text(numpy_class(type.dtype))))
    if isinstance(type, ir.Enum):
        return Call("_codec.member", (Text(at), Text(scope.symbol(type.symbol))))
    if isinstance(type, ir.Node):
        ties = [Keyword(local(name), Text(size_text(size, unsure))) for name, size in type.ties]
        return Call(scope.function(type.cls, "read"), (Text(at), Text("put"), *ties))
    if isinstance(type, ir.Optional):
        return _optional(read(scope, type.item, at, unsure, depth), at)
    if isinstance(type, (ir.Sequence, ir.Dict)):
        return _read_many(scope, type, at, unsure, depth)
    if isinstance(type, ir.Untyped):
        return Call("_codec.read_untyped", (Text(at),))
    if isinstance(type, (ir.Tuple, ir.Partial)):
        raise _not_lowered(type)
    assert_never(type)


def _read_many(
    scope: ModuleScope, type: ir.Sequence | ir.Dict, at: str, unsure: frozenset[str], depth: int
) -> Expression:
    x = loop_variable(depth)
    length = () if type.length is None else (Text(size_text(type.length, unsure)),)
    if isinstance(type, ir.Sequence):
        item = read(scope, type.item, x, unsure, depth + 1)
        items = Call("_codec.items", (Text(at), *length))
        many: Expression = Comprehension(item, x, items)
        if isinstance(item, Call) and str(item.args[0]) == x:
            many = Call("_codec.each", (Text(item.head), items, *item.args[1:]))
        return Call("tuple", (many,)) if type.immutable else many
    k = x.replace("x", "k")
    entries = Call("_codec.entries" if type.key == "str" else "_codec.int_entries", (Text(at), *length))
    value = read(scope, type.value, x, unsure, depth + 1)
    return Comprehension(value, f"{k}, {x}", entries, "{}", f"{k}: ")


def abstract(scope: ModuleScope, owner: str, type: ir.Type, default: str | None = None) -> Expression:
    """A value of the type without contents; the caller knows that the type is not unsized."""
    if isinstance(type, ir.Array):
        function = "_codec.abstract_host" if type.host else "_codec.abstract"
        return Call(
            function, (_tuple([render(dim.size, local) for dim in type.dims]), Text(scope.use_dtype(type.dtype)))
        )
    if isinstance(type, ir.Key):
        impl = (Text(literal(type.impl)),) if type.impl else ()
        return Call("_codec.abstract_key", (_tuple([render(dim.size, local) for dim in type.dims]), *impl))
    if isinstance(type, ir.Fitted):
        sizes = _tuple([render(dim.size, local) for dim in type.dims])
        shape = Call("_codec.fitted_shape", _asked(scope, type, sizes))
        return Call("_codec.abstract", (shape, Text(scope.use_dtype(type.dtype))))
    if isinstance(type, ir.Scalar):
        return Text(_literal_default(default) or _ZERO[type.type])
    if isinstance(type, ir.NumpyScalar):
        return Call(numpy_class(type.dtype), (Text("0"),))
    if isinstance(type, ir.Enum):
        named = (default or "").removeprefix(f"{type.symbol}.")
        chosen = named if named in type.members else type.members[0]
        plain = is_name(chosen) and not chosen.startswith("_")
        return Text(scope.symbol(type.symbol) + (f".{chosen}" if plain else f"[{literal(chosen)}]"))
    if isinstance(type, ir.Optional) and default == "None":
        return Text("None")
    if isinstance(type, ir.Optional):
        return Text("None") if left_out(scope.schema, owner, type.item) else abstract(scope, owner, type.item)
    if isinstance(type, ir.Node):
        ties = dict(type.ties)
        given = [(name, ties.get(name, Name(name))) for name in scope.sizes[type.cls]]
        keywords = [Keyword(local(name), Text(render(size, local))) for name, size in given]
        return Call(scope.function(type.cls, "abstract"), tuple(keywords))
    if isinstance(type, ir.Sequence):
        assert type.length is not None
        many = Comprehension(abstract(scope, owner, type.item), "_", Text(f"range({render(type.length, local)})"))
        return Call("tuple", (many,)) if type.immutable else many
    if isinstance(type, (ir.Dict, ir.Untyped)):
        raise AssertionError(f"{ir.describe(type)} has no known size")
    if isinstance(type, (ir.Tuple, ir.Partial)):
        raise _not_lowered(type)
    assert_never(type)


def state_type(name_of: Callable[[str], str], type: ir.Type) -> str:
    """The type of a state-dict entry, as mypy reads it; `name_of` gives that of a class, by its id."""
    if isinstance(type, ir.Array):
        rank = len(type.dims)
        return f"_codec.Array{rank if rank <= 5 else 'N'}[{_state_dtype(type.dtype)}]"
    if isinstance(type, ir.Fitted):
        return f"_codec.ArrayN[{_state_dtype(type.dtype)}]"
    if isinstance(type, ir.Key):
        return "_codec.KeyState"
    if isinstance(type, ir.Enum):
        return "str"
    if isinstance(type, ir.Node):
        return name_of(type.cls)
    if isinstance(type, ir.Sequence):
        return f"dict[str, {state_type(name_of, type.item)}]"
    if isinstance(type, ir.Dict):
        return f"dict[str, {state_type(name_of, type.value)}]"
    if isinstance(type, ir.Optional):
        return f"{state_type(name_of, type.item)} | None"
    if isinstance(type, ir.Untyped):
        return "object"
    if isinstance(type, ir.Scalar):
        return _scalar_type(type)
    if isinstance(type, ir.NumpyScalar):
        return _numpy_scalar_type(type)
    if isinstance(type, (ir.Tuple, ir.Partial)):
        raise _not_lowered(type)
    assert_never(type)


def object_type(scope: ModuleScope, type: ir.Type, longest: int = _LONGEST_TYPE) -> str:
    """The type of a value, as mypy reads it; of type arguments too, which are not lowered."""
    if isinstance(type, ir.Array):
        return "_codec.HostArray" if type.host else "_jax.Array"
    if isinstance(type, (ir.Key, ir.Fitted)):
        return "_jax.Array"
    if isinstance(type, ir.Scalar):
        return _scalar_type(type)
    if isinstance(type, ir.NumpyScalar):
        return _numpy_scalar_type(type)
    if isinstance(type, ir.Enum):
        return scope.symbol(type.symbol)
    if isinstance(type, ir.Node):
        return class_type(scope, scope.schema[type.cls], longest)
    if isinstance(type, ir.Sequence):
        item = object_type(scope, type.item, longest)
        return f"tuple[{item}, ...]" if type.immutable else f"list[{item}]"
    if isinstance(type, ir.Dict):
        return f"dict[{type.key}, {object_type(scope, type.value, longest)}]"
    if isinstance(type, ir.Optional):
        return f"{object_type(scope, type.item, longest)} | None"
    if isinstance(type, ir.Tuple):
        return _tuple_type(scope, type.items, longest)
    if isinstance(type, ir.Partial):
        return "_codec.Partial"
    if isinstance(type, ir.Untyped):
        return "object"
    assert_never(type)


def class_type(scope: ModuleScope, cls: ir.Class, longest: int = _LONGEST_TYPE) -> str:
    """The type of a class's instances, as mypy reads it; a generic one that is longer has a name of its own."""
    match cls.kind:
        case "tuple":
            items = [field.type for field in cls.fields]
            text = _tuple_type(scope, items, longest)
            return text if _fits(scope, cls, text, longest) else _named_type(scope, cls, items)
        case "partial":
            return "_codec.Partial"
        case "keywords":
            return "_codec.Keywords"
        case "state" | "attrs" | "namedtuple" | "typeddict" | "foreign":
            return _generic_type(scope, cls, longest) if cls.args else scope.symbol(cls.symbol)
        case _:
            assert_never(cls.kind)


def _generic_type(scope: ModuleScope, cls: ir.Class, longest: int) -> str:
    text = f"{scope.symbol(cls.symbol)}[{', '.join(object_type(scope, arg) for arg in cls.args)}]"
    return text if _fits(scope, cls, text, longest) else _named_type(scope, cls, cls.args)


def _fits(scope: ModuleScope, cls: ir.Class, text: str, longest: int) -> bool:
    """Whether a type with brackets is on no line that a formatter would break at them."""
    alone = f"def {scope.stems[cls.id][0]}_abstract() -> {text}:"  # the one function that may have no parameters
    is_there = not scope.sizes[cls.id] and not scope.unsized[cls.id]
    return len(text) <= longest and not (is_there and len(alone) > WIDTH)


def _named_type(scope: ModuleScope, cls: ir.Class, args: Iterable[ir.Type]) -> str:
    return scope.name_type(cls, [object_type(scope, arg, _LONGEST_ARGUMENT) for arg in args])


def _tuple_type(scope: ModuleScope, items: Iterable[ir.Type], longest: int) -> str:
    return f"tuple[{', '.join(object_type(scope, item, longest) for item in items) or '()'}]"


def numpy_class(dtype: str) -> str:
    """The scalar class of a dtype as an expression that exists at run time."""
    if BY_NAME[dtype].numpy.type.__module__ == "numpy":
        return "_np.bool_" if dtype == "bool" else f"_np.{dtype}"
    return f"_ml_dtypes.{dtype}"


def _scalar_type(type: ir.Scalar) -> str:
    return "None" if type.type == "none" else type.type


def _numpy_scalar_type(type: ir.NumpyScalar) -> str:
    name = numpy_class(type.dtype)
    return name if name.startswith("_np.") else "_np.generic"  # ml_dtypes' classes are variables to type checkers


def _state_dtype(dtype: str) -> str:
    return numpy_class(dtype).replace("_ml_dtypes.", "_codec.")


def _asked(scope: ModuleScope, type: ir.Fitted, shape: Expression) -> tuple[Expression, ...]:
    """What init is asked: the optimizer, where the array is in its state, and the param that it is made of."""
    return Text(scope.symbol(type.init)), Text(literal(type.at)), shape, Text(scope.use_dtype(type.param))


def _shape(type: ir.Array | ir.Key | ir.Fitted, unsure: frozenset[str]) -> Expression:
    return _tuple([size_text(dim.size, unsure) for dim in type.dims])


def _tuple(sizes: list[str]) -> Expression:
    return Call("", tuple(map(Text, sizes)))


def _optional(inner: Expression, at: str) -> Expression:
    if isinstance(inner, Call) and inner.args and str(inner.args[0]) == at and inner.head not in _OVERLOADED:
        return Call("_codec.maybe", (Text(inner.head), *inner.args))
    return inner if str(inner) == at else OrNone(at, inner)


def _not_lowered(type: ir.Tuple | ir.Partial) -> AssertionError:
    return AssertionError(f"{ir.describe(type)} should have become a class: _lower.py")


def _literal_default(default: str | None) -> str | None:
    """A default that is a plain literal, as formatters write it."""
    try:
        value = ast.literal_eval(default or "")
    except (ValueError, SyntaxError):
        return None
    return literal(value) if isinstance(value, (str, bytes)) else repr(value)
