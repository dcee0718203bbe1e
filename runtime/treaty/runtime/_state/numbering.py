"""The keys of sequences in state dicts: "0", "1", …, made once."""

_texts: list[str] = [str(index) for index in range(1024)]  # replaced as a whole, never changed
_packed: list[bytes] = []


def index_keys(count: int) -> list[str]:
    """At least `count` keys in order."""
    global _texts
    if len(_texts) < count:
        _texts = [str(index) for index in range(2 * count)]
    return _texts


def packed_index_keys(count: int) -> list[bytes]:
    """The same in MessagePack."""
    global _packed
    if len(_packed) < count:
        _packed = [bytes([0xA0 | len(key)]) + key.encode() for key in index_keys(count)]
    return _packed
