"""Which generated code serves a class: registered codecs, and how one is found when it is not there yet."""

import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Generic, TypeVar

import attrs
from attrs import frozen

from treaty.runtime._errors import CodecError
from treaty.schema import Schema, ir, modules
from treaty.schema._classes import relative
from treaty.schema._declare import options_of, state_options
from treaty.schema._read import SchemaReader, schema_as_generated
from treaty.schema.modules import home_of, import_generated, script_file, symbol_of

_T = TypeVar("_T")


@frozen(eq=False, slots=False)
class Codec(Generic[_T]):
    """The generated functions of one class."""

    cls: type[_T]
    id: str
    schemas: Callable[[], Schema]  # parsed on first use
    digest: str
    write: Callable[[_T], Mapping[str, object]]
    read: Callable[..., _T]
    abstract: Callable[..., _T] | None
    dims: tuple[str, ...]
    sizes: tuple[str, ...]  # the dims that `abstract` needs
    unsized: str  # where no schema can say how many there are, so that `abstract` is None
    revision: int | None = None  # of the class, where it is locked as it is

    @cached_property
    def schema(self) -> Schema:
        return self.schemas().at(self.id)


_codecs: dict[tuple[Any, str], Codec[Any]] = {}
_checked: dict[Any, Codec[Any]] = {}  # class, alias or codec -> codec known to be fresh
_bare: dict[
    type, Codec[Any]
] = {}  # the same of generic classes without arguments, which need not be those of an instance


def register(codec: Codec[_T]) -> Codec[_T]:
    """Enter a codec. Registering again replaces it: a module may be reloaded."""
    known = _codecs.get((codec.cls, codec.id))
    if codec.revision is None and known is not None and known.digest == codec.digest:
        codec = attrs.evolve(codec, revision=known.revision)  # compiled in memory, of a declaration that is locked
    _codecs[codec.cls, codec.id] = codec
    _checked.clear()
    _bare.clear()
    return codec


def revisions_of(schema: Schema) -> dict[str, int]:
    """The revisions of the classes of a schema, by symbol, as far as they are locked as they are."""
    locked = {id: codec.revision for (_, id), codec in list(_codecs.items()) if codec.revision is not None}
    # A generic class of another module has its own number, whatever its arguments are.
    return {cls.symbol: locked[id] for cls in schema.classes for id in (cls.symbol, cls.id) if id in locked}


def is_state_class(cls: type) -> bool:
    """Whether a class is declared with @state, or is a plain attrs class with generated code."""
    return state_options(cls) is not None or any(origin is cls for origin, _ in list(_codecs))


def fields_of(cls: type) -> tuple[ir.Field, ...]:
    """The fields of a class as its generated code has them; none where it has no code."""
    found = next((codec for (origin, _), codec in list(_codecs.items()) if origin is cls), None)
    return () if found is None else found.schema.root_class.fields


def is_class_of(cls: type, id: str) -> bool:
    """Whether a class is the one of this id, as far as generated code knows it: of one defined anew there are two."""
    known = [origin for origin, own in list(_codecs) if own == id]
    return not known or cls in known


def is_class(target: Any) -> bool:
    """Whether a target is a class or a generic alias, and no template."""
    return isinstance(target, type) or typing.get_origin(target) is not None


def codec_of(target: Any) -> Codec[Any]:
    """The codec of a class, a generic alias, or an instance."""
    return codec_of_class(target) if is_class(target) else codec_of_instance(target)


def codec_for(obj: object, cls: Any) -> Codec[Any]:
    """The codec of an instance, or of `cls`, the generic alias, where the class of the instance alone does not say it."""
    return codec_of_instance(obj) if cls is None else codec_of_class(cls)


def codec_of_class(cls: Any) -> Codec[Any]:
    """The codec of a class or generic alias; imports its generated module where needed."""
    try:
        return _checked[cls]
    except (KeyError, TypeError):
        pass
    origin = typing.get_origin(cls) or cls
    if not isinstance(origin, type):
        raise CodecError(f"expected a state class or an instance of one, got {type(cls).__name__}: {cls!r}")
    if cls in _bare:
        return _bare[cls]
    schema = schema_as_generated(cls, lambda id: _generated(origin, id))
    codec = _codecs.get((origin, schema.root))  # imported when it was asked what the code was generated for
    if codec is None:
        raise CodecError(missing_code(origin, schema.root))
    if not _serves(codec, cls):
        raise CodecError(
            f"the code of {codec.id} is for another definition of its classes; call treaty.generator.load again"
        )
    _check_fresh(codec, schema)
    if isinstance(cls, type) and getattr(cls, "__parameters__", None):
        _bare[cls] = codec
    else:
        _checked[cls] = codec
    return codec


def codec_of_instance(obj: Any) -> Codec[Any]:
    """The codec of an instance. Of a generic class there may be several: then the class must be given."""
    cls = type(obj)
    found = _checked.get(cls)
    if found is not None:
        return found
    if not getattr(cls, "__parameters__", ()):
        return codec_of_class(cls)
    import_generated(cls.__module__)
    typed = [codec for (origin, id), codec in list(_codecs.items()) if origin is cls and "[" in id]
    if len(typed) == 1:
        return _fresh_instance(typed[0])
    if not typed:
        return codec_of_class(cls)
    names = ", ".join(codec.id for codec in typed)
    raise CodecError(f"{cls.__name__} is generic, and this could be any of {names}; pass the one you mean as cls")


def _fresh_instance(codec: Codec[Any]) -> Codec[Any]:
    """The codec of a generic class and its arguments, as far as no alias has to say these: the class is as it is declared, and
    so are the classes among the arguments."""
    if codec not in _checked:
        from treaty.schema.evolution.history import instance

        reader = SchemaReader()
        root = reader.generic(codec.cls)
        declared = Schema(root, reader.classes()).at(root)
        filled = instance(declared, codec.schema.root_class.args, codec.schema)
        if filled is None or filled.digest != codec.schema.digest:
            raise CodecError(_stale(codec.cls, codec.id))
        _check_arguments(codec)
        _checked[codec] = codec
    return _checked[codec]


def _check_arguments(codec: Codec[Any]) -> None:
    compiled = _compiled_with(codec)
    for cls in codec.schema.classes[1:]:
        known = [origin for origin, id in list(_codecs) if id == cls.id == cls.symbol]
        if known and codec_of_class(compiled.get(cls.symbol, known[-1])).schema.root_class != cls:
            raise CodecError(_stale(codec.cls, codec.id))


def _serves(codec: Codec[Any], cls: Any) -> bool:
    """Whether code that was compiled in memory is for the very classes that an alias names: a notebook may define them again."""
    compiled = _compiled_with(codec)
    return all(compiled.get(symbol_of(one), one) is one for one in _classes_in(cls))


def _compiled_with(codec: Codec[Any]) -> Mapping[str, Any]:
    """The classes, by symbol, that code which was compiled in memory is for."""
    found: Mapping[str, Any] = getattr(codec.read, "__globals__", {}).get("_classes", {})
    return found


def _classes_in(alias: Any) -> Iterable[type]:
    for one in typing.get_args(alias):
        if isinstance(one, type):
            yield one
        yield from _classes_in(one)


def _generated(cls: type, id: str) -> Schema | None:
    """The schema that code was generated for, if there is code."""
    if (cls, id) not in _codecs:
        import_generated(cls.__module__)
    codec = _codecs.get((cls, id))
    return None if codec is None else codec.schema


def missing_code(cls: type, id: str) -> str:
    file, home = script_file(cls.__module__), home_of(cls.__module__)
    if "<locals>" in cls.__qualname__ or (cls.__module__ == "__main__" and file is None):
        return f"no generated code for {id}; in a notebook or script call treaty.generator.load({cls.__name__}) first"
    if home != cls.__module__ and sys.modules.get(home) is not sys.modules[cls.__module__]:
        return (
            f"expected one module {home}, got two: the script that is run, and {home}, which something imported before "
            f"{relative(file or home)} declared {cls.__name__}; move the classes into a module that both import, or the import "
            "below the classes"
        )
    if "[" in id:
        return (
            f"no generated code for {id}; use it as a field of a class in a module you generate, "
            f"or call treaty.generator.load on it"
        )
    if file is not None and home == cls.__module__:
        return f"no generated code for {id}; run: treaty generate {relative(file)}, or call treaty.generator.load({cls.__name__}) first"
    return f"no generated code for {id}; run: treaty generate {home}"


def check_fields(cls: type, id: str, children: tuple[str, ...], static: tuple[str, ...]) -> None:
    """Refuse generated code of other fields than the class has: JAX would see some of them, and train no others."""
    fields = attrs.fields(cls) if attrs.has(cls) else ()
    declared = [tuple(one.name for one in fields if options_of(one).static == wanted) for wanted in (False, True)]
    if declared != [children, static] and not modules.generating:
        raise CodecError(_stale(cls, id))


def _check_fresh(codec: Codec[Any], schema: Schema) -> None:
    if codec.schema.to_json() != schema.to_json():
        known = {cls.id: cls for cls in codec.schema.classes}
        others = [cls for cls in schema.classes if known.get(cls.id) != cls and cls.id != codec.id]
        homes = [cls.module for cls in others if cls.kind == "state" and not cls.args]
        is_own = len(homes) < len(others) or known.get(codec.id) != schema.root_class or codec.digest != schema.digest
        raise CodecError(_stale(codec.cls, codec.id, homes, is_own=is_own or not homes))


def _stale(cls: type, id: str, homes: Iterable[str] = (), *, is_own: bool = True) -> str:
    """`homes` are the modules of other classes in it that changed, which keep their code with them."""
    names = " ".join(dict.fromkeys([*homes, *([home_of(cls.__module__)] if is_own else [])]))
    return f"the generated code of {id} is older than its declaration; run: treaty generate {names}"
