"""Numbers as keys of state dicts: those of sequences, "0", "1", …, made once, and those of dicts."""

_texts: list[str] = [str(index) for index in range(1024)]  # replaced as a whole, never changed
_packed: list[bytes] = []


def index_keys(count: int) -> list[str]:
    """At least `count` keys in order."""
    global _texts
    texts = _texts  # another thread may put a shorter list in place
    if len(texts) < count:
        _texts = texts = [str(index) for index in range(2 * count)]
    return texts


def packed_index_keys(count: int) -> list[bytes]:
    """The same in MessagePack."""
    global _packed
    packed = _packed
    if len(packed) < count:
        _packed = packed = [bytes([0xA0 | len(key)]) + key.encode() for key in index_keys(count)]
    return packed


def int_of(key: str) -> int | None:
    """The number that a key of a dict is; None for any text that Python would not write of one, such as 01 and +1."""
    try:
        number = int(key)
        return number if str(number) == key else None
    except ValueError:  # also of more digits than Python takes
        return None
