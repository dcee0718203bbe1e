"""The keys of sequences in state dicts: "0", "1", …, made once."""

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
