"""Annotation text -> IR types: the rows of `treaty.schema._read.SchemaReader`, read from the source instead of objects."""

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attrs import frozen
from mypy.nodes import TypeAlias, TypeInfo, TypeVarExpr, Var
from mypy.types import AnyType, Instance, get_proper_type

from treaty.generator import _mypy_notes as notes
from treaty.generator._mypy_names import Found, Names, Position, Unsure
from treaty.schema import ArraySpec, Dims, Keys, Length, SchemaError, _leaves, _ties, ir
from treaty.schema._spread import misplaced, only_keys

Scope = Mapping[str, ir.Type]  # type variable -> what it stands for

_PARTIAL: Final = "jax._src.tree_util.Partial"
_SCALARS: Final = {f"builtins.{name}": name for name in ("int", "float", "bool", "str", "bytes", "complex")}
_CONTAINERS: Final = {
    "builtins.list": "list",
    "builtins.tuple": "tuple",
    "builtins.dict": "dict",
    "typing.List": "list",
    "typing.Tuple": "tuple",
    "typing.Dict": "dict",
}
_NEVER_STORED: Final = {"typing.Callable", "typing.Literal", "numpy._typing._array_like.NDArray"}


@frozen(eq=False)
class Types:
    """Reads annotations. `node` reads a class of the schema, `inline` enters one that exists only at its field."""

    names: Names
    node: Callable[[TypeInfo, tuple[ir.Type, ...]], ir.Node]
    inline: Callable[[Mapping[str, ir.Type]], ir.Node]

    def read(self, expr: ast.expr, place: Position, scope: Scope) -> ir.Type:
        """One annotation. Raises SchemaError for what is wrong, Unsure for what the text does not tell."""
        expr = notes.unquoted(expr)
        if isinstance(expr, ast.Constant) and expr.value is None:
            return ir.Scalar("none")
        if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.BitOr):
            return self._union(list(_alternatives(expr)), expr, place, scope)
        if isinstance(expr, ast.Subscript):
            return self._subscript(expr, place, scope)
        if isinstance(expr, ast.Name) and _is_type_variable(expr, place):
            return self._type_variable(expr.id, place, scope)
        return self._name(self.names.find(expr, place), expr, place, scope)

    def field(self, expr: ast.expr, place: Position, scope: Scope) -> tuple[ir.Type, Keys | None]:
        """The annotation of a field, which alone may have Keys."""
        expr = notes.unquoted(expr)
        if isinstance(expr, (ast.Name, ast.Attribute)) and not _is_type_variable(expr, place):
            found = self.names.find(expr, place)
            if isinstance(found.node, TypeAlias) and not _has_a_meaning(found.fullname):
                return self.field(*self.names.value(found.fullname), {})
        if isinstance(expr, ast.Subscript):
            found = self.names.find(expr.value, place)
            if self._is_annotated(found):
                return self._annotated(_arguments(expr), place, scope)
        return self.read(expr, place, scope), None

    def _name(self, found: Found, expr: ast.expr, place: Position, scope: Scope) -> ir.Type:
        node, fullname = found.node, found.fullname
        if isinstance(node, TypeVarExpr):
            return self._type_variable(node.name, place, scope)
        if fullname in ("typing.Any", "builtins.object"):
            return ir.Untyped()
        if fullname in _SCALARS:
            return ir.Scalar(_SCALARS[fullname])
        if (scalar := notes.numpy_class(fullname)) is not None:
            return ir.NumpyScalar(_leaves.numpy_scalar(scalar))
        if fullname in _CONTAINERS:
            name = ast.unparse(expr)
            raise SchemaError(f"{name} has no item type; write {name}[...], or Any for an unchecked subtree")
        if fullname in _NEVER_STORED:
            raise SchemaError(f"cannot store {ast.unparse(expr)}; {_leaves.CAN_STORE}")
        if isinstance(node, TypeAlias):
            return self.read(*self.names.value(fullname), {})
        if isinstance(node, TypeInfo):
            return self._class(node, (), found, expr)
        if isinstance(node, Var) and self.names.origin(found) == "jaxtyping.PyTree":
            return ir.Untyped()
        raise Unsure

    def _class(self, info: TypeInfo, args: tuple[ir.Type, ...], found: Found, expr: ast.expr) -> ir.Type:
        if info.fullname in (notes.JAX_ARRAY, "numpy.ndarray") and not isinstance(expr, ast.Subscript):
            if found.name != "Array" and self.names.origin(found).startswith("jaxtyping."):
                raise Unsure  # jaxtyping.Scalar and PRNGKeyArray, which mypy takes for plain arrays
            raise SchemaError(f"{info.name} has no dtype and shape; write Float32[{info.name}, 'd_in d_out']")
        if info.fullname == _PARTIAL:
            raise SchemaError(_leaves.WRITE_PARTIAL)
        if info.is_enum:
            return ir.Enum(info.fullname, ())
        if notes.kind_of(info) is not None:
            return self.node(info, args)
        if not notes.is_surely_plain(info, self.names):
            raise Unsure
        raise SchemaError(f"cannot store {ast.unparse(expr)}; {_leaves.CAN_STORE}")

    def _type_variable(self, name: str, place: Position, scope: Scope) -> ir.Type:
        """What it stands for; alone, a variable without bound and default is an untyped subtree."""
        if name in scope:
            return _ties.open_ties(scope[name])
        found = self.names.find(ast.Name(name), place)
        if not isinstance(found.node, TypeVarExpr) or found.node.values:
            raise Unsure
        bound, default = get_proper_type(found.node.upper_bound), get_proper_type(found.node.default)
        if not isinstance(default, AnyType) or not isinstance(bound, Instance):
            raise Unsure
        if bound.type.fullname != "builtins.object":
            raise Unsure
        return ir.Untyped()

    def _subscript(self, expr: ast.Subscript, place: Position, scope: Scope) -> ir.Type:
        found = self.names.find(expr.value, place)
        args = _arguments(expr)
        if self._is_annotated(found):
            type, keys = self._annotated(args, place, scope)
            if keys is not None:
                raise misplaced(keys)
            return type
        if isinstance(found.node, Var) or found.fullname == "typing.Annotated":
            origin = self.names.origin(found)
            if origin == "jaxtyping.PyTree":
                return ir.Untyped()
            if origin.startswith("jaxtyping."):
                return notes.jaxtyping_array(origin.removeprefix("jaxtyping."), args, self.names, place)
        if found.fullname in ("typing.Optional", "typing.Union"):
            none: list[ast.expr] = [ast.Constant(None)] if found.fullname == "typing.Optional" else []
            return self._union([*args, *none], expr, place, scope)
        if found.fullname in _CONTAINERS:
            return self._container(_CONTAINERS[found.fullname], args, expr, place, scope)
        if found.fullname in _NEVER_STORED:
            raise SchemaError(f"cannot store {ast.unparse(expr)}; {_leaves.CAN_STORE}")
        if not isinstance(found.node, TypeInfo):
            raise Unsure
        if notes.kind_of(found.node) is None:
            return self._class(found.node, (), found, expr)
        if len(args) != len(found.node.type_vars):
            raise Unsure
        return self._class(found.node, tuple(self.read(arg, place, scope) for arg in args), found, expr)

    def _container(self, name: str, args: list[ast.expr], expr: ast.expr, place: Position, scope: Scope) -> ir.Type:
        if name == "list":
            return ir.Sequence(self.read(args[0], place, scope), immutable=False)
        if name == "dict":
            key = self.read(args[0], place, scope)
            if key not in (ir.Scalar("str"), ir.Scalar("int")):
                raise SchemaError(f"{ast.unparse(expr)}: expected dict[str, X] or dict[int, X]")
            return ir.Dict(ir.describe(key), self.read(args[1], place, scope))
        if len(args) == 2 and isinstance(args[1], ast.Constant) and args[1].value is Ellipsis:
            return ir.Sequence(self.read(args[0], place, scope), immutable=True)
        return ir.Tuple(tuple(self.read(arg, place, scope) for arg in args))

    def _union(self, items: list[ast.expr], expr: ast.expr, place: Position, scope: Scope) -> ir.Type:
        types = [self.read(item, place, scope) for item in items]
        inner = [type for type in types if type != ir.Scalar("none")]
        if len(inner) != 1 or len(types) != 2:
            raise SchemaError(f"union {ast.unparse(expr)}: {_leaves.UNION}")
        return ir.Optional(inner[0])

    def _is_annotated(self, found: Found) -> bool:
        """Whether it is Annotated itself, and not what jaxtyping tells mypy is that."""
        is_called_so = isinstance(found.node, Var) or found.fullname == "typing.Annotated"
        return is_called_so and self.names.origin(found) == "typing.Annotated"

    def _annotated(self, args: list[ast.expr], place: Position, scope: Scope) -> tuple[ir.Type, Keys | None]:
        found = [notes.note(arg, self.names, place) for arg in args[1:]]
        if notes.FROM_INIT in found:
            return ir.Untyped(), None
        spec = next((one for one in found if isinstance(one, ArraySpec)), None)
        given = next((one for one in found if isinstance(one, notes.Given)), None)
        if spec is not None:
            type = notes.array_of(args[0], spec.dtype, spec.dims, self.names, place)
        elif given is not None:
            type = self._foreign(args[0], given.types, place, scope)
        else:
            type, inner = self.field(args[0], place, scope)
            found = [inner, *found]
        keys = only_keys(found)
        for one in found:
            if isinstance(one, Dims):
                type = _ties.tie(type, one)
            elif isinstance(one, Length):
                type = _ties.with_length(type, one.size)
        return type, keys

    def _foreign(self, base: ast.expr, given: Mapping[str, ast.expr], place: Position, scope: Scope) -> ir.Type:
        found = self.names.find(base.value if isinstance(base, ast.Subscript) else base, place)
        if found.fullname == _PARTIAL:
            return self._partial(given, place, scope)
        types = {name: self.read(one, place, scope) for name, one in given.items()}
        if isinstance(found.node, TypeInfo) and not found.node.fallback_to_any:
            expected = notes.constructor_names(found.node, self.names)
            for name in types:
                if name not in expected:
                    raise SchemaError(_leaves.no_such_field(name, found.node.name, expected))
            if missing := [name for name in expected if name not in types]:
                raise SchemaError(_leaves.no_type_for(missing, found.node.name))
        return self.inline(types)

    def _partial(self, given: Mapping[str, ast.expr], place: Position, scope: Scope) -> ir.Type:
        if "func" not in given or set(given) - {"func", "args", "keywords"}:
            raise SchemaError(f"Partial: {_leaves.WRITE_PARTIAL}")
        args, keywords = given.get("args", ast.Tuple([])), given.get("keywords", ast.Dict([], []))
        if not isinstance(args, ast.Tuple) or not isinstance(keywords, ast.Dict):
            raise Unsure
        types = tuple(self.read(arg, place, scope) for arg in args.elts)
        pairs = zip(keywords.keys, keywords.values, strict=True)
        named = {str(notes.literal(key)): self.read(one, place, scope) for key, one in pairs if key is not None}
        return ir.Partial("", ir.Tuple(types), self.inline(named))


def _has_a_meaning(fullname: str) -> bool:
    """Whether an alias of another library is known by its name: np.int64, typing.List."""
    return fullname in _CONTAINERS or fullname in _NEVER_STORED or notes.numpy_class(fullname) is not None


def _is_type_variable(expr: ast.expr, place: Position) -> bool:
    return isinstance(expr, ast.Name) and place.cls is not None and expr.id in place.cls.type_vars


def _arguments(expr: ast.Subscript) -> list[ast.expr]:
    return list(expr.slice.elts) if isinstance(expr.slice, ast.Tuple) else [expr.slice]


def _alternatives(expr: ast.expr) -> Iterator[ast.expr]:
    """The sides of `a | b | c`."""
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.BitOr):
        yield from _alternatives(expr.left)
        yield from _alternatives(expr.right)
    else:
        yield expr
