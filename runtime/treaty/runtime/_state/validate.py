"""`validate`: what is wrong with a state, said at any moment by attributes alone: no array is moved, read or computed."""

from collections.abc import Mapping
from typing import Any

from treaty.runtime._errors import StateMismatchError
from treaty.runtime._state.arrays import outline_key
from treaty.runtime._state.by_schema import StateForm
from treaty.runtime._state.explain import explain, of_values
from treaty.runtime._state.explain_value import explain_value
from treaty.runtime._state.registry import codec_for
from treaty.runtime._state.state_dict import check_arguments


def validate(state: object, cls: Any = None, *, dims: Mapping[str, int] | None = None) -> None:
    """Raise one StateMismatchError with all that a save of this state would refuse: shapes, dtypes, ties, containers, classes.

    Only attributes are looked at, so that it is cheap, and holds for arrays that are abstract, traced, donated or on other
    hosts. `cls` names the generic alias where the class of `state` alone does not say it; `dims` are sizes that it must have.
    """
    codec = codec_for(state, cls)
    check_arguments(codec, dims or {}, None)
    found = list(explain_value(codec.schema, state))
    wrong = {one.path for one in found}
    if () not in wrong:  # else there is nothing to look into
        told = explain(codec.schema, StateForm(codec.schema, outline_key).root(state), dims)
        found += [
            one._replace(expected=of_values(one.expected))
            for one in told
            if not any(one.path[:end] in wrong for end in range(len(one.path) + 1))
        ]
    if found:
        raise StateMismatchError(found)
