"""`Keys(...)` of a field, checked: what may be spread, and that no key is one of two fields.

The reader and the mypy plugin both call this, so they say the same.
"""

import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, assert_never

from treaty.schema import ir
from treaty.schema._declare import Keys
from treaty.schema._errors import SchemaError
from treaty.schema._key_texts import NUMBER, TEXT, is_key_text, key_text
from treaty.schema._leaves import TYPE_ALIAS


def without_keys(annotation: Any) -> tuple[Any, Keys | None]:
    """The annotation of a field without its Keys, and those. Anywhere else they are `misplaced`."""
    while isinstance(annotation, TYPE_ALIAS) or typing.get_origin(annotation) is typing.Required:
        is_alias = isinstance(annotation, TYPE_ALIAS)
        annotation = annotation.__value__ if is_alias else typing.get_args(annotation)[0]
    if typing.get_origin(annotation) is not Annotated:
        return annotation, None
    base, *notes = typing.get_args(annotation)
    found = only_keys(notes)
    if found is None:
        return annotation, None
    rest = tuple(note for note in notes if note is not found)
    return (Annotated[(base, *rest)] if rest else base), found


def only_keys(notes: Iterable[object]) -> Keys | None:
    """The Keys among what stands beside a type in Annotated."""
    found = [note for note in notes if isinstance(note, Keys)]
    if len(found) > 1:
        raise SchemaError(f"{found[0]!r} and {found[1]!r}: items have one name each; write it once")
    return found[0] if found else None


def misplaced(keys: Keys) -> SchemaError:
    return SchemaError(
        f"{keys!r}: items lie beside the keys of a class; write it on a field itself, as in Annotated[tuple[X, ...], {keys!r}]"
    )


def check_spread(type: ir.Type, keys: Keys, key: str | None, static: bool) -> None:
    """What a field with Keys may be. `key` and `static` are its options."""
    if key is not None:
        raise SchemaError(f"field(key={key!r}) beside {keys!r}: the items have keys of their own; remove key=")
    if static:
        raise SchemaError(f"field(static=True) beside {keys!r}: what is static is one value; remove one of them")
    numbered = key_text(keys.text).numbered
    if isinstance(type, (ir.Sequence, ir.Tuple, ir.Dict)):
        has_numbers = not isinstance(type, ir.Dict) or type.key == "int"
        if has_numbers and not numbered:
            write = Keys(keys.text.replace(TEXT, NUMBER))
            raise SchemaError(f"{keys!r}: the items of {ir.describe(type)} have numbers; write {write!r}")
        if numbered and not has_numbers:
            write = Keys(keys.text.replace(NUMBER, TEXT))
            raise SchemaError(f"{keys!r}: the keys of {ir.describe(type)} are text; write {write!r}")
        return
    if not isinstance(type, (ir.Leaf, ir.Node, ir.Optional, ir.Partial)):
        assert_never(type)
    why = "; None could not be told from no items" if isinstance(type, ir.Optional) else ""
    raise SchemaError(f"{keys!r}: expected a list, a tuple or a dict, got {ir.describe(type)}{why}")


def spread_problems(fields: Iterable[ir.Field], reserved: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(field, problem) of Keys that may stand for a key of something else. `reserved` is keys, each with its class."""
    fields = tuple(fields)
    taken = [(one.key, f"the key of {one.name}") for one in fields if not one.spread]
    taken += [(alias, f"an alias of {one.name}") for one in fields for alias in one.aliases]
    taken += [(key, f"reserved by {owner}") for key, owner in reserved.items()]
    spread = [one for one in fields if one.spread]
    for number, one in enumerate(spread):
        text, keys = key_text(one.key), Keys(one.key)
        for key, whose in taken:
            if text.item(key) is not None and not is_key_text(
                key
            ):  # a key text is no key, but that of a field of items
                yield one.name, f"{keys!r} stands for {key!r} too, which is {whose}; write Keys(...) with another name"
        for other in spread[:number]:
            if text.meets(key_text(other.key)):
                yield (
                    one.name,
                    f"{keys!r} and {Keys(other.key)!r} of {other.name} stand for a key that is the same; "
                    "write Keys(...) with another name",
                )
