"""`migration`: how the state of one revision of a class becomes that of the next, as rules or as a function.

    split = migration(Attention, 1, moves=[Rule("qkv", ("query", "key", "value"), axis=0)])

    @migration(TrainState, 2)
    def rescale(old: TrainStateV2) -> TrainStateV3: ...

A migration belongs to its class, wherever that stands in a tree. It is registered when its module is imported: put it into
the module of its class, or into one that this imports.
"""

import json
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar, overload

from attrs import Factory, field, frozen

from treaty.schema import modules
from treaty.schema._declare import state_options
from treaty.schema._errors import SchemaError
from treaty.schema.evolution.digests import function_digest, name_digest
from treaty.schema.ir_json import digest_of
from treaty.schema.keymap import KeyMap, Rule
from treaty.schema.modules import symbol_of

_F = TypeVar("_F", bound=Callable[..., Any])


@frozen(slots=False)
class Moves:
    """Rules of a key map: the stored names are paths of the earlier revision, the fields those of the later one."""

    keymap: KeyMap
    where: str = ""  # module of the call, for messages

    @cached_property
    def digest(self) -> str:
        """Of what it says, so that an edit of a released migration is found."""
        return digest_of(json.loads(self.keymap.to_json()))


@frozen(slots=False)
class Function:
    """A function from the state dict of one revision to that of the next. It has no inverse."""

    call: Callable[[Any], Any]
    where: str = field(default=Factory(lambda self: symbol_of(self.call), takes_self=True))
    known_digest: str = ""  # of a function that is in another process

    @cached_property
    def digest(self) -> str:
        return self.known_digest or function_digest(self.call, self.where)

    @property
    def has_source(self) -> bool:
        """Whether an edit of it would be found."""
        return self.digest != name_digest(self.where)


Step = Moves | Function

_registered: dict[str, dict[int, Step]] = {}  # by symbol of the class, and the revision that a step begins at
_registrations = 0


@overload
def migration(cls: Any, revision: int, /) -> Callable[[_F], _F]: ...
@overload
def migration(cls: Any, revision: int, /, *, moves: Iterable[Rule], sizes: Mapping[str, int] = ...) -> Moves: ...
def migration(
    cls: Any, revision: int, /, *, moves: Iterable[Rule] | None = None, sizes: Mapping[str, int] | None = None
) -> Any:
    """Say how the state of revision `revision` of a class becomes that of the next revision.

    With `moves`, rules of a key map: what they do not name goes by its key, as without a migration; they are read lazily, and
    can be undone. `sizes` are those of axes that no array shows. As a decorator, a function of the state dict.
    """
    origin = typing.get_origin(cls) or cls
    called = f"migration({getattr(origin, '__name__', repr(cls))}, {revision!r})"
    if not isinstance(origin, type) or state_options(origin) is None:
        raise SchemaError(f"{called}: expected a class declared with @state")
    if type(revision) is not int or revision < 1:
        raise SchemaError(f"{called}: expected the number of a revision, from 1 on; treaty lock prints them")
    if moves is not None:
        made = Moves(KeyMap(_rules(called, moves), sizes=dict(sizes or {})), origin.__module__)
        _register(called, origin, revision, made)
        return made

    def decorate(function: _F) -> _F:
        if not callable(function):
            raise SchemaError(f"{called}: expected a function below it, or moves=[Rule(...), ...]")
        _register(called, origin, revision, Function(function))
        return function

    return decorate


def steps_of(symbol: str) -> Mapping[int, Step]:
    """The registered migrations of a class, by the revision that they begin at."""
    return _registered.get(symbol, {})


def registrations() -> int:
    """How often a migration was registered: what was found of fewer may not hold any more."""
    return _registrations


def step_to_data(step: Step) -> dict[str, Any]:
    """A migration as JSON data, for a process that does not import the user's modules."""
    if isinstance(step, Moves):
        return {"kind": "moves", "where": step.where, "keymap": json.loads(step.keymap.to_json())}
    return {"kind": "function", "where": step.where, "digest": step.digest}


def step_from_data(data: Mapping[str, Any]) -> Step:
    if data["kind"] == "moves":
        return Moves(KeyMap.from_data(data["keymap"]), data["where"])
    return Function(_elsewhere, data["where"], data["digest"])


def _elsewhere(old: Any) -> Any:
    raise AssertionError("this process knows of the migration, but has no function to call")


def _rules(called: str, moves: Iterable[Rule]) -> tuple[Rule, ...]:
    rules = tuple(moves) if isinstance(moves, Iterable) and not isinstance(moves, str) else ()
    if not rules or not all(isinstance(rule, Rule) for rule in rules):
        raise SchemaError(f"{called}: expected moves=[Rule(...), ...], got {moves!r}")
    for rule in rules:
        if rule.has_subtree:
            raise SchemaError(
                f"{called}: expected rules without **, got {rule}; a rule of a migration takes all below its names as it is"
            )
    return rules


def _register(called: str, cls: type, revision: int, step: Step) -> None:
    steps = _registered.setdefault(symbol_of(cls), {})
    known = steps.get(revision)
    if known is not None and (modules.generating or not _is_same(known, step)):
        raise SchemaError(
            f"{called}: there are two, in {_place(known)} and {_place(step)}; "
            f"a step has one migration: join them, or lock what lies between"
        )
    steps[revision] = step
    global _registrations
    _registrations += 1


def _place(step: Step) -> str:
    code = getattr(step.call, "__code__", None) if isinstance(step, Function) else None
    return step.where if code is None else f"{step.where} (line {code.co_firstlineno})"


def _is_same(one: Step, other: Step) -> bool:
    """Whether a module was imported again, as notebooks and test runners do."""
    if isinstance(one, Function) and isinstance(other, Function):
        return one.where == other.where
    return one == other
