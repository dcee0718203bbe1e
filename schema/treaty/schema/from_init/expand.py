"""What a `FromInit` stands for: the optimizer's init is run for params of several sizes, none of them with contents."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, assert_never

import attrs
import numpy as np
from attrs import frozen

from treaty.schema import ir
from treaty.schema._classes import one_line
from treaty.schema._declare import FromInit
from treaty.schema._errors import SchemaError
from treaty.schema.dims import Dim, Expr, substituted
from treaty.schema.from_init.generated import Generated
from treaty.schema.from_init.trials import TRIALS, Trials, Untrieable, abstract
from treaty.schema.from_init.types import StateTypes, Unlike

_WORKS: Final = "write one that works wherever types are read, without data or devices"
_WIDE: Final = tuple(map(np.dtype, ("float64", "int64", "uint64", "complex128")))


@frozen
class KnownClasses:
    """What the reader knows when every field but those with FromInit is read: settled classes, objects by symbol."""

    classes: Mapping[str, ir.Class]
    objects: Mapping[str, Any]
    symbol: Callable[[Any], str]
    enter: Callable[[ir.Class], None]


def state_type(
    marker: FromInit, symbol: str, owner: ir.Class, known: KnownClasses, generated: Generated | None = None
) -> ir.Type:
    """The type of the state that the optimizer's init makes of a field of `owner`. `symbol` is what the function is called.

    `generated` is what code was generated for: where init makes just that, it is asked once and not for every size.
    """
    of = params_type(marker, owner, known.classes)
    if _is_open(of, owner, known.classes):
        raise SchemaError(_any_params(marker, owner))
    init = _init_of(marker)
    trials = Trials(known.classes, known.objects)
    if generated is not None and generated.is_made_by(partial(_run, marker, init), trials, of):
        for cls in generated.described:
            known.enter(cls)
        return generated.type
    states, params = [], {}
    for trial in range(TRIALS):
        try:
            env = trials.env(of, trial)
            params[trial] = trials.value(of, env, (), trial)
        except Untrieable:
            continue
        states.append((trial, _run(marker, init, params[trial]), env))
    types = StateTypes(trials, of, params, known.symbol, known.enter, (symbol, marker.make))
    try:
        found = types.state(states)
    except Unlike as unlike:
        raise SchemaError(f"{marker!r}: the state has no one type: {unlike}") from None
    if types.problems:
        raise SchemaError(*(f"{marker!r}: {problem}" for problem in types.problems))
    return found


def params_type(marker: FromInit, owner: ir.Class, classes: Mapping[str, ir.Class]) -> ir.Type:
    """The type of the field that the state is made of, its sizes in the owner's dims."""
    type: ir.Type = ir.Node(owner.id)
    walked: list[str] = []
    for name in marker.of.split("."):
        cls = classes[type.cls] if isinstance(type, ir.Node) else None
        field = next((one for one in cls.fields if one.name == name), None) if cls is not None else None
        if cls is None or field is None:
            raise SchemaError(_no_field(marker, ".".join(walked), name, type, cls))
        if field.init is not None or owner.id in ir.reached(classes, field.type):
            raise SchemaError(f"{marker!r}: {name} holds what it would be made of; name the field of the params")
        type = field.type if not walked or not isinstance(type, ir.Node) else _outside(field.type, dict(type.ties))
        walked.append(name)
        if loose := _loose(type, classes):
            at = ".".join(walked)
            raise SchemaError(
                f"{marker!r}: {at} has dims of its own, {', '.join(loose)}, and so would the state: nothing says that both "
                f"have the same sizes; write Annotated[..., Dims(...)] at {at}"
            )
    return type


def _is_open(of: ir.Type, owner: ir.Class, classes: Mapping[str, ir.Class]) -> bool:
    """Whether the params are of any type: a type variable that nothing fills in, also where the generic class is locked."""
    is_any = bool(owner.args) and isinstance(of, ir.Untyped)
    return is_any or any(id.startswith(ir.VARIABLE) for id in ir.reached(classes, of))


def _any_params(marker: FromInit, owner: ir.Class) -> str:
    name = owner.qualname
    return (
        f"{marker!r}: {marker.of} is of a type variable here, and init makes another state of each type; leave this field out of "
        f"{name}, and write it in a class for each: class Own{name}({name}[Params]) with opt: Annotated[..., {marker!r}]"
    )


def _no_field(marker: FromInit, at: str, name: str, type: ir.Type, cls: ir.Class | None) -> str:
    if cls is None:
        return f"{marker!r}: {at} is {ir.describe(type)}, which has no fields; name {at} itself, or a field of a class"
    known = ", ".join(one.name for one in cls.fields if one.init is None) or "none"
    return f"{marker!r}: {cls.qualname} has no field {name!r}; its fields: {known}"


def _outside(type: ir.Type, ties: Mapping[str, Expr]) -> ir.Type:
    """A type of a field as its owner's owner says it, whose dims the ties give."""
    if isinstance(type, ir.Node):
        return ir.Node(type.cls, tuple((name, substituted(size, ties)) for name, size in type.ties))
    if isinstance(type, (ir.Array, ir.Key)):
        return attrs.evolve(type, dims=tuple(Dim(substituted(dim.size, ties)) for dim in type.dims))
    if isinstance(type, (ir.Sequence, ir.Dict)) and type.length is not None:
        type = attrs.evolve(type, length=substituted(type.length, ties))
    return ir.with_children(type, lambda part: _outside(part, ties))


def _loose(type: ir.Type, classes: Mapping[str, ir.Class]) -> list[str]:
    """The dims of a class that nothing ties. Items of a list may have their own."""
    if isinstance(type, ir.Node):
        cls = classes[type.cls]
        return [name for name in cls.dims if name not in {*dict(type.ties), *dict(cls.definitions), ir.EVERY}]
    if isinstance(type, (ir.Optional, ir.Tuple, ir.Partial)):
        return [name for part in ir.children(type) for name in _loose(part, classes)]
    if isinstance(type, (ir.Leaf, ir.Sequence, ir.Dict)):
        return []
    assert_never(type)


def _init_of(marker: FromInit) -> Callable[[Any], Any]:
    try:
        made = marker.make()
    except (Exception, SystemExit) as error:  # the function is user code: it can raise anything
        raise SchemaError(f"{marker!r}: it raises {_said(error)}; {_WORKS}") from None
    init = getattr(made, "init", None)
    if not callable(init):
        raise SchemaError(
            f"{marker!r}: it returns {type(made).__name__}, which has no init; return an optax.GradientTransformation"
        )
    found: Callable[[Any], Any] = init
    return found


def _run(marker: FromInit, init: Callable[[Any], Any], params: Any) -> Any:
    """What init makes of params without contents, its arrays without contents too."""
    import jax

    states: list[Any] = []

    def run(given: Any) -> None:
        states.append(jax.tree.map(_struct, init(given)))

    wide = any(getattr(leaf, "dtype", None) in _WIDE for leaf in jax.tree.leaves(params))
    try:
        with jax.enable_x64(True) if wide else nullcontext():  # JAX has no such params otherwise
            jax.eval_shape(run, params)
    except jax.errors.JAXTypeError as error:
        raise SchemaError(
            f"{marker!r}: init asks for values of the params, and types are read before there are any "
            f"({type(error).__name__}); write the state by hand, with Annotated[Class, Fields(...)]"
        ) from None
    except (Exception, SystemExit) as error:  # so is init
        raise SchemaError(f"{marker!r}: init raises {_said(error)}; {_WORKS}") from None
    return states[0]


def _struct(leaf: Any) -> Any:
    """A leaf of a state without its contents. A number is the array that an update makes of it."""
    if isinstance(leaf, (bool, int, float, complex)):
        import jax

        return abstract((), jax.dtypes.canonicalize_dtype(np.asarray(leaf).dtype))
    is_array = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    return abstract(leaf.shape, leaf.dtype) if is_array else leaf


def _said(error: BaseException) -> str:
    text = one_line(error)
    return f"{type(error).__name__}: {text[:200]}{'...' if len(text) > 200 else ''}"
