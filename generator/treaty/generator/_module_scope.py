"""What code in one generated module can name: its own functions, those of other modules, dtypes, imports."""

from collections.abc import Iterable, Mapping

from attrs import define, field

from treaty.generator._dims_plan import sure_path
from treaty.generator._layout import Call, Expression, Text
from treaty.generator._lower import lower
from treaty.generator._names import emitted_for, findable, literal, module_aliases, stems, type_name
from treaty.generator._sizes import all_sizes, all_unsized
from treaty.schema import Schema, ir


@define
class ModuleScope:
    """Naming a thing here also notes that it is used, so that imports and dtypes are just those needed."""

    module: str
    declared: Schema
    schema: Schema  # the same, lowered
    own_classes: list[ir.Class]  # as declared
    emitted: list[ir.Class]  # lowered, children first
    generated: Mapping[str, str]
    stems: Mapping[str, tuple[str, str]]
    aliases: Mapping[str, str]
    sizes: Mapping[str, tuple[str, ...]]
    unsized: Mapping[str, str]
    unsure: Mapping[str, frozenset[str]]  # class id -> dims that a valid state may not determine
    injected: bool  # whether classes are handed over as objects rather than imported
    dtypes: set[str] = field(factory=set)
    used: set[str] = field(factory=set)
    types: dict[str, tuple[str, Expression]] = field(factory=dict)  # name -> (class id, long type), inner ones first

    @classmethod
    def of(
        cls,
        module: str,
        roots: tuple[str, ...],
        classes: tuple[ir.Class, ...],
        generated: Mapping[str, str],
        inject: bool,
    ) -> "ModuleScope":
        schema = lower(Schema("", classes))
        outside = frozenset(one.id for one in classes if not inject and external(one, module))
        emitted = _children_first(schema, roots, outside)
        own = {one.id for one in emitted}
        names = stems(schema.classes, None if inject else module)
        return cls(
            module=module,
            declared=Schema("", classes),
            schema=schema,
            own_classes=[one for one in classes if one.id in own],
            emitted=emitted,
            generated=generated,
            stems=names,
            aliases=module_aliases(
                _modules(module, schema, generated, outside),
                {name for one in emitted for name in emitted_for(one, *names[one.id])},
            ),
            sizes=all_sizes(schema),
            unsized=all_unsized(schema),
            unsure={
                one.id: frozenset(dim for dim in one.dims if sure_path(schema, one, dim) is None)
                for one in schema.classes
            },
            injected=inject,
        )

    def symbol(self, symbol: str) -> str:
        """`pkg.state:Linear` as source text."""
        module, _, qualname = symbol.partition(":")
        if module == "builtins":
            return qualname
        if self.injected:
            return f"_classes[{literal(symbol)}]"
        self.used.add(module)
        return f"{self.aliases[module]}.{qualname}"

    def function(self, id: str, suffix: str) -> str:
        """A generated function of a class, wherever it lives."""
        return self._prefix(id) + f"{self.stems[id][0]}_{suffix}"

    def peek(self, id: str, dim: str) -> str:
        return self.function(id, f"peek_{dim}")

    def state_name(self, id: str) -> str:
        return self._prefix(id) + f"{self.stems[id][1]}State"

    def use_dtype(self, name: str) -> str:
        """The constant that holds a dtype."""
        self.dtypes.add(name)
        return f"_{name}"

    def name_type(self, cls: ir.Class, args: list[str]) -> str:
        """The name that stands for a class with these type arguments."""
        digits = 8
        while self.types.get(name := type_name(cls, digits), (cls.id,))[0] != cls.id:
            digits += 8
        type = Call(self.symbol(cls.symbol), tuple(map(Text, args)), "[]")
        # Only from two arguments on does a comma keep brackets apart.
        self.types[name] = cls.id, type if len(args) > 1 else Text(str(type))
        return name

    def imports(self) -> dict[str, str]:
        return {name: self.aliases[name] for name in sorted(self.used)}

    def used_schemas(self) -> list[str]:
        homes = {self.generated[one.module] for one in self.schema.classes if self._external(one)}
        return [f"lambda: {self.aliases[home]}.SCHEMA" for home in sorted(homes & self.used)]

    def _prefix(self, id: str) -> str:
        if not self._external(self.schema[id]):
            return ""
        home = self.generated[self.schema[id].module]
        self.used.add(home)
        return f"{self.aliases[home]}."

    def _external(self, cls: ir.Class) -> bool:
        return not self.injected and external(cls, self.module)


def external(cls: ir.Class, module: str) -> bool:
    """Whether a class's code lives with another module: declared there with @state, and not a generic filled in here."""
    return cls.module != module and findable(cls)


def _modules(module: str, schema: Schema, generated: Mapping[str, str], outside: frozenset[str]) -> Iterable[str]:
    found = {module: None}
    for cls in schema.classes:
        found[cls.module] = None
        if cls.id in outside:
            found[generated[cls.module]] = None
        for one in cls.fields:
            for type in ir.every_type(one.type):
                if isinstance(type, ir.Enum):
                    found[type.symbol.partition(":")[0]] = None
                if isinstance(type, ir.Fitted):
                    found[type.init.partition(":")[0]] = None
    return list(found)


def _children_first(schema: Schema, roots: tuple[str, ...], outside: frozenset[str]) -> list[ir.Class]:
    """The classes to emit, what a class uses above it where recursion allows; nothing below those outside."""
    ordered: dict[str, ir.Class] = {}
    entered: set[str] = set(outside)

    def visit(cls: ir.Class) -> None:
        if cls.id in entered:
            return
        entered.add(cls.id)
        for one in cls.fields:
            for node in ir.nodes(one.type):
                visit(schema[node.cls])
        ordered[cls.id] = cls

    for id in roots:
        visit(schema[id])
    return list(ordered.values())
