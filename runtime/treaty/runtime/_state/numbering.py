"""The keys of sequences in state dicts: "0", "1", …, made once."""

from functools import lru_cache

_texts: list[str] = [str(index) for index in range(1024)]  # replaced as a whole, never changed
_packed: list[bytes] = []


def index_keys(count: int) -> list[str]:
    """At least `count` keys in order."""
    global _texts
    if len(_texts) < count:
        _texts = [str(index) for index in range(2 * count)]
    return _texts


@lru_cache(8)  # of one model, mostly
def index_block(start: int, count: int) -> tuple[list[str], bytes]:
    """Keys from `start` on, never to be changed, and their texts joined."""
    keys = index_keys(start + count)[start : start + count]
    return keys, "".join(keys).encode()


@lru_cache(8)
def index_places(count: int) -> dict[str, None]:
    """A dict of so many keys, never to be changed: to copy it is quicker than to fill another."""
    return dict.fromkeys(index_keys(count)[:count])


def packed_index_keys(count: int) -> list[bytes]:
    """The same in MessagePack."""
    global _packed
    if len(_packed) < count:
        _packed = [bytes([0xA0 | len(key)]) + key.encode() for key in index_keys(count)]
    return _packed
