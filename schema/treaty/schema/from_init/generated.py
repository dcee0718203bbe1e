"""Whether an optimizer's init still makes what code was generated for: one question instead of one for every size."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import attrs
from attrs import frozen

from treaty.schema import ir
from treaty.schema.from_init.trials import TRIALS, Env, Place, Trials, Untrieable
from treaty.schema.modules import object_of

_MIXED = TRIALS - 1  # small and large dims


@frozen
class Generated:
    """The type of a field with FromInit as code was generated for it, and the classes of that schema."""

    type: ir.Type
    classes: Mapping[str, ir.Class]

    @classmethod
    def of(cls, schema: ir.Schema | None, owner: str, name: str) -> Self | None:
        """None where there is no such field, or where only every size tells whether the type is still the same."""
        classes = {} if schema is None else {one.id: one for one in schema.classes}
        fields = classes[owner].fields if owner in classes else ()
        found = next((cls(one.type, classes) for one in fields if one.name == name and one.init is not None), None)
        if found is None or any(isinstance(type, ir.Fitted) for type in found._types()):
            return None
        return found

    @property
    def described(self) -> list[ir.Class]:
        """The classes below the type that only init describes."""
        return [self.classes[id] for id in self._reached() if self.classes[id].kind in ("foreign", "keywords")]

    def is_made_by(self, init: Callable[[Any], Any], trials: Trials, of: ir.Type) -> bool:
        """Whether init makes a state of this type. `of` is the type of the params."""
        import jax

        try:
            env = trials.env(of, _MIXED)
            state = init(trials.value(of, env, (), _MIXED))
            expected = self._value(trials, env)
        except (Untrieable, LookupError, ImportError, AttributeError):  # of dims or classes that are no longer there
            return False
        trees: list[Any] = [jax.tree.structure(state), jax.tree.structure(expected)]
        return trees[0] == trees[1] and all(map(_same, jax.tree.leaves(state), jax.tree.leaves(expected)))

    def _value(self, trials: Trials, env: Env) -> Any:
        objects = {**trials.objects}
        for cls in self.described:
            objects.setdefault(cls.symbol, object_of(cls.symbol))
        at: Place = ()
        return attrs.evolve(trials, classes={**self.classes, **trials.classes}, objects=objects).value(
            self.type, env, at, _MIXED
        )

    def _reached(self) -> dict[str, None]:
        return ir.reached(self.classes, self.type)

    def _types(self) -> list[ir.Type]:
        fields = (field.type for id in self._reached() for field in self.classes[id].fields)
        return [one for type in (self.type, *fields) for one in ir.every_type(type)]


def _same(one: Any, other: Any) -> bool:
    return (one.shape, one.dtype) == (getattr(other, "shape", None), getattr(other, "dtype", None))
