"""The text of a schema module from its classes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import define, field, frozen

from treaty.generator._names import literal
from treaty.generator._scaffold.class_names import name_classes
from treaty.generator._scaffold.classes import Classes, ClassPlan, is_class, ties
from treaty.generator._scaffold.dim_names import unused
from treaty.generator._scaffold.layout import Brackets, Piece, field_lines, import_lines
from treaty.generator._scaffold.reading import field_name, plural_name
from treaty.generator._scaffold.sized import (
    Shapes,
    Sized,
    SizedItems,
    SizedLeaf,
    SizedNode,
    SizedTwin,
    enums_in,
    twins_in,
)
from treaty.schema import ir
from treaty.schema.dims import Expr, Int, Name, names
from treaty.schema.dtypes import BY_NAME, TABLE

_LIBRARY: Final = "treaty.schema.library.optax"
_NEVER: Final = frozenset(
    ("Annotated", "Array", "ArraySpec", "Dims", "Key", "Keys", "Length", "None", "True", "False", "np")
) | frozenset(row.jaxtyping for row in TABLE if row.jaxtyping)

_NO_FIELDS: Final = {*_NEVER, "field", "tuple", "dict", "int", "float", "bool", "str", "bytes", "complex"}


class TwinConflict(Exception):
    """A class of the library would take two sizes for one: two of its arguments have a dim of one name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


@frozen
class _Typed:
    """The type of a part of a class, what the dims of the classes in it are tied to, and whether some of them are not."""

    piece: Piece
    ties: Mapping[str, Expr] = field(factory=dict)
    notes: tuple[Piece, ...] = ()  # Keys and Length
    has_own: bool = False

    def whole(self) -> Piece:
        """With all that is said of it."""
        notes = (*self.notes, *_dims(self.ties))
        return Brackets("Annotated", (self.piece, *notes)) if notes else self.piece


def module_text(classes: Classes, root: str, header: Sequence[str]) -> str:
    """The module. Raises TwinConflict."""
    emitting = _Emitting(classes)
    emitting.name_enums(root)
    name_classes(classes, root, _NEVER | emitting.imported_names())
    bodies = [text for plan in classes.by_structure.values() for text in ("", "", *emitting.class_lines(plan))]
    return "\n".join([*header, *emitting.imports(), *bodies, ""])


@define
class _Emitting:
    classes: Classes
    _used: dict[str, set[str]] = field(factory=dict)  # by module
    _needs_numpy: bool = False
    _enums: dict[tuple[str, str], str] = field(factory=dict)  # what each is imported as, by module and name

    @property
    def _shapes(self) -> Shapes:
        return self.classes.shapes

    @property
    def _root(self) -> SizedNode:
        return self.classes.by_structure[self.classes.root].node

    def name_enums(self, root: str) -> None:
        """Enums keep their names, unless two are called the same, or something else is."""
        taken = {*_NEVER, *self.imported_names(), root}
        for type_ in enums_in(self._root):
            if _enum_home(type_) not in self._enums:
                self._enums[_enum_home(type_)] = name = unused(_enum_home(type_)[1], taken, "")
                taken.add(name)

    def imported_names(self) -> frozenset[str]:
        return frozenset([*(twin.name for twin in twins_in(self._root)), *self._enums.values()])

    def class_lines(self, plan: ClassPlan) -> Iterator[str]:
        self._use("treaty.schema", "state")
        yield "@state"
        yield f"class {plan.name}:"
        for note in dict.fromkeys(plan.notes):
            yield f"    # {note}"
        offset = 0
        taken = {*_NO_FIELDS, *self.imported_names(), *(one.name for one in self.classes.by_structure.values())}
        for key, child in plan.node.children.items():
            sizes = plan.sizes[offset : offset + len(self._shapes.slots(child))]
            offset += len(sizes)
            pattern = child.pattern if isinstance(child, SizedItems) else None
            name = unused(
                plural_name(pattern) if pattern else plan.node.names.get(key) or field_name(key),
                taken | ({*plan.node.children} - {key}),
            )
            taken.add(name)
            value = ""
            if pattern is None and name != key:
                self._use("treaty.schema", "field")
                value = f"field(key={literal(key)})"
            for note in _notes(child):
                yield f"    # {note}"
            yield from field_lines(name, self._type(child, sizes).whole(), value)

    def _type(self, sized: Sized, sizes: Sequence[Expr]) -> _Typed:
        """The type of a tree at whose sizes stands what is given."""
        if isinstance(sized, SizedLeaf):
            return _Typed(self._leaf(sized.with_axes(tuple(sizes))))
        if isinstance(sized, SizedItems):
            return self._items(sized, sizes)
        if isinstance(sized, SizedTwin):
            return self._twin(sized, sizes)
        if is_class(sized):
            plan = self.classes.of(sized)
            return _Typed(plan.name, self._tied(ties(plan, sizes)))
        return self._tuple(sized, sizes)

    def _items(self, items: SizedItems, sizes: Sequence[Expr]) -> _Typed:
        first, *rest = sizes
        own = bool(items.each)
        if own:
            plan = self.classes.by_structure.get(self._shapes.structure(items.item))
            item = _Typed(plan.name) if plan else self._type(items.item, self._shapes.slots(items.item))
        else:
            item = self._type(items.item, rest)
        inner = item.piece if not item.notes else Brackets("Annotated", (item.piece, *item.notes))
        piece = Brackets("dict", ("int", inner)) if items.holder == "dict" else Brackets("tuple", (inner, "..."))
        notes: list[Piece] = []
        if items.pattern is not None:
            self._use("treaty.schema", "Keys")
            notes.append(Brackets("Keys", (literal(items.pattern),), ")"))
        self._use("treaty.schema", "Length")
        notes.append(Brackets("Length", (_size(first),), ")"))
        self._use("typing", "Annotated")
        if own and not item.ties:  # else they would be taken for those of a field beside it
            self._use("treaty.schema", "Dims")
            notes.append("Dims(None)")
        return _Typed(piece, item.ties, tuple(notes), own or item.has_own)

    def _tuple(self, node: SizedNode, sizes: Sequence[Expr]) -> _Typed:
        if not node.children:
            return _Typed("tuple[()]")
        items: list[_Typed] = []
        for child in node.children.values():
            count = len(self._shapes.slots(child))
            items.append(self._type(child, sizes[:count]))
            sizes = sizes[count:]
        every = {name: size for item in items for name, size in item.ties.items()}
        if any(item.has_own for item in items) or not all(size == Name(name) for name, size in every.items()):
            return _Typed(Brackets("tuple", tuple(item.whole() for item in items)), has_own=True)
        pieces = tuple(Brackets("Annotated", (one.piece, *one.notes)) if one.notes else one.piece for one in items)
        return _Typed(Brackets("tuple", pieces), every)

    def _twin(self, twin: SizedTwin, sizes: Sequence[Expr]) -> _Typed:
        self._use(_LIBRARY, twin.name)
        args: list[_Typed] = []
        for arg in twin.args:
            count = len(self._shapes.slots(arg))
            args.append(self._type(arg, sizes[:count]))
            if isinstance(arg, SizedLeaf):
                names_ = {name: Name(name) for size in sizes[:count] for name in names(size)}
                args[-1] = _Typed(args[-1].piece, names_)
            sizes = sizes[count:]
        found: dict[str, Expr] = {}
        for arg_ in args:
            if arg_.has_own or any(found.setdefault(name, size) != size for name, size in arg_.ties.items()):
                raise TwinConflict(twin.name)
        if not args:
            return _Typed(twin.name)
        pieces = tuple(Brackets("Annotated", (one.piece, *one.notes)) if one.notes else one.piece for one in args)
        return _Typed(Brackets(twin.name, pieces), self._tied(found))

    def _tied(self, found: dict[str, Expr]) -> dict[str, Expr]:
        if found:
            self._use("typing", "Annotated")
            self._use("treaty.schema", "Dims")
        return found

    def _leaf(self, type_: ir.Type) -> Piece:
        if isinstance(type_, (ir.Array, ir.Key)):
            return self._array(type_)
        if isinstance(type_, ir.NumpyScalar):
            self._needs_numpy = True
            return f"np.{type_.dtype}"
        if isinstance(type_, ir.Enum):
            module, name = _enum_home(type_)
            local = self._enums[module, name]
            self._use(module, name if local == name else f"{name} as {local}")
            return f"{local}{type_.symbol.partition(':')[2].removeprefix(name)}"
        assert isinstance(type_, ir.Scalar)
        return "None" if type_.type == "none" else type_.type

    def _array(self, type_: ir.Array | ir.Key) -> Piece:
        dims = literal(" ".join(str(dim.size) for dim in type_.dims))
        kind = "Array"
        if isinstance(type_, ir.Array) and type_.host:
            self._needs_numpy, kind = True, "np.ndarray"
        else:
            self._use("jax", "Array")
        name = "Key" if isinstance(type_, ir.Key) else BY_NAME[type_.dtype].jaxtyping
        if name is None:
            assert isinstance(type_, ir.Array)
            self._use("typing", "Annotated")
            self._use("treaty.schema", "ArraySpec")
            return Brackets("Annotated", (kind, Brackets("ArraySpec", (literal(type_.dtype), dims), ")")))
        self._use("jaxtyping", name)
        return Brackets(name, (kind, dims))

    def imports(self) -> Iterator[str]:
        if "typing" in self._used:
            yield from import_lines("typing", sorted(self._used["typing"]))
            yield ""
        if self._needs_numpy:
            yield "import numpy as np"
        for module in sorted(self._used.keys() - {"typing"}):
            yield from import_lines(module, sorted(self._used[module], key=_import_order))

    def _use(self, module: str, name: str) -> None:
        self._used.setdefault(module, set()).add(name)


def _enum_home(type_: ir.Enum) -> tuple[str, str]:
    """The module of an enum, and the name in it that it is, or is inside of."""
    module, _, name = type_.symbol.partition(":")
    return module, name.partition(".")[0]


def _import_order(name: str) -> tuple[bool, str]:
    return not name[0].isupper(), name


def _size(size: Expr) -> str:
    return str(size) if isinstance(size, Int) else literal(str(size))


def _dims(found: Mapping[str, Expr]) -> tuple[Piece, ...]:
    if not found:
        return ()
    if all(size == Name(name) for name, size in found.items()):
        return ("Dims(...)",)
    same = [literal(name) for name, size in found.items() if size == Name(name)]
    others = [f"{name}={_size(size)}" for name, size in found.items() if size != Name(name)]
    return (Brackets("Dims", (*same, *others), ")"),)


def _notes(sized: Sized) -> Iterator[str]:
    if isinstance(sized, SizedLeaf) and sized.note:
        yield sized.note
    if isinstance(sized, SizedItems) and sized.each:
        yield "the items have sizes of their own, which nothing ties"
    if isinstance(sized, SizedNode) and not is_class(sized):
        for child in sized.children.values():
            yield from _notes(child)
