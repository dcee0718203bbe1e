"""The leaves of an outline as people find them, and those that no schema can hold."""

from collections.abc import Iterator

from treaty.schema.outline import OpaqueLeaf, Outline, OutlineNode

_WAY_OUT = "leave it out of the state, or make it a static field"


def named_leaves(outline: Outline, shown: str = "", in_module: bool = False) -> Iterator[tuple[str, Outline]]:
    """Each leaf with how Python reaches it. What a module has beside its arrays is its own affair."""
    if isinstance(outline, OutlineNode):
        for key, child in outline.children.items():
            step = f"[{key!r}]" if outline.container == "dict" else f"[{key}]" if key.isdecimal() else f".{key}"
            yield from named_leaves(child, outline.shown + step, outline.container == "module")
    elif not (in_module and isinstance(outline, OpaqueLeaf) and not outline.hint):
        yield shown, outline


def opaque_leaves(outline: Outline, start: str) -> Iterator[str]:
    """A line for each leaf that cannot be stored, with what to do about it."""
    for shown, leaf in named_leaves(outline):
        if isinstance(leaf, OpaqueLeaf) and not leaf.is_function:
            yield f"{start}expected an array or a plain value, got {leaf.text} at state{shown}; {leaf.hint or _WAY_OUT}"
