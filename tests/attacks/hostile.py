"""Hostile files, built from descriptions: `python -m tests.attacks.hostile` writes them to tests/attacks/files/.

Each is small on disk and wrong in one way. Beside it stands the message that reading it must give, and nothing else may
happen: no other exception, no crash, no hang, no memory beyond a small multiple of the file.
"""

import gzip
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgpack

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FILES = Path(__file__).with_name("files")
CHUNKED = "__msgpack_chunked_array__"
HUGE = 2**32 - 1


class Hostile(NamedTuple):
    name: str
    data: bytes
    message: str


def pack(value: object) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


def ext(code: int, payload: bytes) -> bytes:
    return b"\xc9" + struct.pack(">Ib", len(payload), code) + payload


def array(shape: object, dtype: object, data: object = b"", code: int = 1) -> bytes:
    return ext(code, b"\x93" + pack(shape) + pack(dtype) + pack(data))


def at(key: str, value: bytes) -> bytes:
    """A map with one entry, so that messages have a path to tell."""
    return b"\x81" + pack(key) + value


def mapping(*entries: bytes) -> bytes:
    return bytes([0x80 + len(entries) // 2]) + b"".join(entries)


def chunked(shape: bytes, chunks: bytes) -> bytes:
    return at("w", mapping(pack(CHUNKED), b"\xc3", pack("shape"), shape, pack("chunks"), chunks))


def parts(*arrays: bytes) -> bytes:
    return mapping(*(one for index, part in enumerate(arrays) for one in (pack(str(index)), part)))


def _lengths() -> Iterator[Hostile]:
    """Every header that carries a length, saying more than there is."""
    for name, code, width, room in [
        *(("str8", 0xD9, ">B", "text"), ("str16", 0xDA, ">H", "text"), ("str32", 0xDB, ">I", "text")),
        *(("bin8", 0xC4, ">B", "bytes"), ("bin16", 0xC5, ">H", "bytes"), ("bin32", 0xC6, ">I", "bytes")),
    ]:
        most = 256 ** struct.calcsize(width) - 1
        head = bytes([code]) + struct.pack(width, most)
        start = 3 + len(head)
        yield Hostile(
            f"{name}-too-long", at("w", head + b"ab"), f"expected {most} bytes of {room}, got 2 at byte {start}, $.w"
        )
        cut = 2 + struct.calcsize(width)
        yield Hostile(
            f"{name}-cut-in-its-length",
            at("w", head[:-1]),
            f"expected {cut - 1} bytes of a length, got {cut - 2} at byte 3, $.w",
        )
    for name, code, width in [("ext8", 0xC7, ">B"), ("ext16", 0xC8, ">H"), ("ext32", 0xC9, ">I")]:
        most = 256 ** struct.calcsize(width) - 1
        head = bytes([code]) + struct.pack(width, most) + b"\x01"
        message = f"expected {most} bytes of an extension, got 2 at byte {3 + len(head)}, $.w"
        yield Hostile(f"{name}-too-long", at("w", head + b"ab"), message)
    for name, code, width in [
        ("array16", 0xDC, ">H"),
        ("array32", 0xDD, ">I"),
        ("map16", 0xDE, ">H"),
        ("map32", 0xDF, ">I"),
    ]:
        most = 256 ** struct.calcsize(width) - 1
        head = bytes([code]) + struct.pack(width, most)
        message = f"expected {most} items, got 2 bytes at byte {3 + len(head)}, $.w"
        yield Hostile(f"{name}-too-long", at("w", head + b"\xc0\xc0"), message)
    yield Hostile("fixstr-too-long", at("w", b"\xbfab"), "expected 31 bytes of text, got 2 at byte 4, $.w")
    yield Hostile("fixarray-too-long", at("w", b"\x9f\xc0"), "expected 15 items, got 1 bytes at byte 4, $.w")
    yield Hostile("fixmap-too-long", at("w", b"\x8f\xc0"), "expected 15 items, got 1 bytes at byte 4, $.w")
    yield Hostile("fixext16-cut", at("w", b"\xd8\x01ab"), "expected 16 bytes of an extension, got 2 at byte 5, $.w")
    yield Hostile("float64-cut", at("w", b"\xcb\x00"), "expected 9 bytes of a number, got 2 at byte 3, $.w")


def _arrays() -> Iterator[Hostile]:
    """Arrays whose parts do not go together."""
    yield Hostile(
        "ext-of-no-bytes", at("w", b"\xc7\x00\x01"), "expected a value, got the end of the data at byte 6, $.w"
    )
    yield Hostile("ext-0", at("w", ext(0, b"")), "expected extension type 1, 2 or 3, got 0 at byte 3, $.w")
    yield Hostile("ext-4", at("w", ext(4, b"abc")), "expected extension type 1, 2 or 3, got 4 at byte 3, $.w")
    yield Hostile(
        "ext-timestamp", at("w", ext(-1, bytes(4))), "expected extension type 1, 2 or 3, got -1 at byte 3, $.w"
    )
    yield Hostile("never-used-byte", at("w", b"\xc1"), "expected a value, got the byte 0xc1 at byte 3, $.w")
    pickled = b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R\x94."
    for name in [
        "O",
        "object",
        "V8,O",
        "f4,f4",
        ",",
        "",
        "float32,float32",
        "|O8",
        "<f4",
        "f4",
        "U3",
        "str33",
        "bytes12",
        "void32",
    ]:
        file = {"": "nothing", ",": "comma", "|O8": "O8", "<f4": "little f4"}.get(name, name)
        yield Hostile(
            f"dtype-{file.replace(',', '+').replace(' ', '-')}",
            at("w", array([1], name, pickled if "O" in name or name == "object" else b"\0\0\0\0")),
            f"expected the name of a dtype, got {name!r} at byte 12, $.w",
        )
    for name, dtype in [("dtype-void0", "void0"), ("dtype-datetime-0s", "datetime64[0s]"), ("dtype-class", "Colour")]:
        yield Hostile(
            name, at("w", array([2**40], dtype)), f"expected the name of a dtype, got {dtype!r} at byte 20, $.w"
        )
    yield Hostile(
        "dtype-a-number", at("w", array([1], 7)), "expected the name of a dtype, got something else at byte 12, $.w"
    )
    yield Hostile(
        "dtype-bytes",
        at("w", array([1], b"float32")),
        "expected the name of a dtype, got something else at byte 12, $.w",
    )
    long = "x" * 500
    yield Hostile(
        "dtype-long", at("w", array([1], long)), f"expected the name of a dtype, got '{'x' * 76}... at byte 12, $.w"
    )
    for name, shape, message in [
        ("negative", [-1], "expected a length, got -1 at byte 11"),
        ("negative-64", [2, -(2**63)], "expected a length, got -9223372036854775808 at byte 12"),
        ("float", [1.0], "expected a length, got 1.0 at byte 11"),
        ("nan", [float("nan")], "expected a length, got nan at byte 11"),
        ("true", [True], "expected a length, got something else at byte 11"),
        ("text", ["1"], "expected a length, got something else at byte 11"),
        ("nested", [[1]], "expected a length, got something else at byte 11"),
        ("dict", {"0": 1}, "expected a shape, got something else at byte 10"),
        ("none", None, "expected a shape, got something else at byte 10"),
        ("65-axes", [1] * 65, "expected at most 64 axes, got 65 at byte 10"),
        ("of-many-digits", [2**63] * 1000, "expected at most 64 axes, got 1000 at byte 10"),
    ]:
        yield Hostile(f"shape-{name}", at("w", array(shape, "float32", bytes(4))), f"{message}, $.w")
    for name, shape, count in [
        ("too-large", [2], 8),
        ("too-small", [], 4),
        ("overflowing-to-0", [2**62], 2**64),
        ("overflowing-to-4", [2**62, 2**62, 5], 2**126 * 5),
        ("huge", [HUGE, HUGE], HUGE * HUGE * 4),
        ("empty", [0], 0),
    ]:
        got = bytes(8 if name == "too-small" else 4)
        start = 10 + len(pack(shape)) + 8
        message = f"expected {count} bytes for float32{shape}, got {len(got)} at byte {start}, $.w"
        yield Hostile(f"shape-{name}", at("w", array(shape, "float32", got)), message)
    zero = [0, 2**62, 2**62]
    yield Hostile(
        "shape-of-nothing-over-the-limit",
        at("w", array(zero, "float32")),
        f"expected a shape, got {zero} (array is too big; `arr.size * arr.dtype.itemsize` is larger than "
        "the maximum possible size.) at byte 10, $.w",
    )
    yield Hostile(
        "array-of-two",
        at("w", ext(1, pack([[1], "int8"]))),
        "expected an array's shape, dtype and data, got something else at byte 9, $.w",
    )
    yield Hostile(
        "array-data-is-text",
        at("w", array([2], "int8", "ab")),
        "expected the data of an array, got something else at byte 17, $.w",
    )
    inner = pack([[2], "int8", b"ab"])
    longer = at("w", ext(1, inner + b"c"))
    yield Hostile(
        "ext-longer-than-its-array",
        longer,
        "expected an array that ends with its extension at 22, got one up to 21 at byte 17, $.w",
    )
    shorter = at("w", b"\xc9" + struct.pack(">Ib", len(inner) - 1, 1) + inner)
    yield Hostile(
        "ext-shorter-than-its-array",
        shorter,
        "expected an array that ends with its extension at 20, got one up to 21 at byte 17, $.w",
    )
    yield Hostile(
        "scalar-with-an-axis",
        at("w", array([1], "int8", b"a", 3)),
        "expected a scalar, got the shape [1] at byte 9, $.w",
    )
    for name, payload in [
        ("one-part", [1.0]),
        ("text", ["1", "2"]),
        ("ints", [1, 2]),
        ("map", {1.0: 2.0}),
        ("three", [1.0] * 3),
    ]:
        yield Hostile(
            f"complex-{name}",
            at("w", ext(2, pack(payload))),
            "expected a complex number, got something else at byte 9, $.w",
        )


def _keys() -> Iterator[Hostile]:
    yield Hostile(
        "key-twice",
        mapping(pack("a"), b"\x01", pack("a"), b"\x02"),
        "expected each key once, got 'a' again at byte 4, $",
    )
    many = b"".join(pack(f"{index % 40:02}") + array([1], "int8", b"a") for index in range(80))
    yield Hostile(
        "keys-twice-among-alike", b"\xde\x00\x50" + many, "expected each key once, got some again at byte 3, $"
    )
    wide = b"\xdb\x00\x00\x00\x01a"
    yield Hostile(
        "key-twice-in-two-widths",
        mapping(pack("a"), b"\x01", wide, b"\x02"),
        "expected each key once, got 'a' again at byte 4, $",
    )
    for name, key, kind in [
        ("list", b"\x90", "list"),
        ("map", b"\x80", "dict"),
        ("array", array([1], "int8", b"a"), "ndarray"),
        ("nan", b"\xcb" + struct.pack(">d", float("nan")), "float"),
        ("complex", ext(2, pack([1.0, 2.0])), "complex"),
        ("numpy-complex", array([], "complex64", bytes(8), 3), "complex64"),
        ("numpy-nan", array([], "float64", struct.pack("<d", float("nan")), 3), "float64"),
        ("numpy-float16", array([], "float16", b"\x00\x7c", 3), "float16"),
        ("numpy-timedelta", array([], "timedelta64[s]", bytes(8), 3), "timedelta64"),
    ]:
        yield Hostile(f"key-{name}", mapping(key, b"\x01"), f"expected a key, got a {kind} at byte 1, $")
    yield Hostile("key-not-utf8", b"\x81\xa2\xc3\x28\x01", "expected UTF-8, got other bytes at byte 2, $")
    yield Hostile("key-surrogate", b"\x81\xa3\xed\xa0\x80\x01", "expected UTF-8, got other bytes at byte 2, $")
    yield Hostile("text-not-utf8", at("w", b"\xa1\xff"), "expected UTF-8, got other bytes at byte 4, $.w")
    bad = b"".join(pack(f"{index:02}") + array([1], "int8", b"a") for index in range(50)).replace(
        b"\xa249", b"\xa2\xff9"
    )
    yield Hostile("key-not-utf8-among-alike", b"\xde\x00\x32" + bad, "expected UTF-8, got other bytes at byte 984, $")
    yield Hostile(
        "long-key",
        at("k" * 200, b"\xc1"),
        "expected a value, got the byte 0xc1 at byte 203, $[" + repr("'" + "k" * 76 + "...") + "]",
    )


def _chunks() -> Iterator[Hostile]:
    """Arrays in parts."""
    one = array([1], "int8", b"a")
    shape, wrong_shape = mapping(pack("0"), b"\x02"), "expected the shape of a chunked array, got something else"
    wrong_parts = "expected the parts of a chunked array, got something else"
    for name, built, message in [
        (
            "without-chunks",
            at("w", mapping(pack(CHUNKED), b"\xc3", pack("shape"), shape)),
            f"expected a chunked array, got the keys ['{CHUNKED}', 'shape']",
        ),
        ("alone", at("w", mapping(pack(CHUNKED), b"\xc3")), f"expected a chunked array, got the keys ['{CHUNKED}']"),
        ("shape-is-a-list", chunked(b"\x91\x02", parts(one, one)), wrong_shape),
        ("shape-negative", chunked(mapping(pack("0"), b"\xfe"), parts(one, one)), wrong_shape),
        ("shape-float", chunked(mapping(pack("0"), pack(2.0)), parts(one, one)), wrong_shape),
        ("shape-key-missing", chunked(mapping(pack("1"), b"\x02"), parts(one, one)), wrong_shape),
        (
            "shape-65-axes",
            chunked(b"\xde\x00\x41" + b"".join(pack(str(axis)) + b"\x01" for axis in range(65)), parts(one)),
            wrong_shape,
        ),
        (
            "shape-of-digits",
            chunked(b"\xde\x03\xe8" + b"".join(pack(str(axis)) + pack(2**63) for axis in range(1000)), parts(one)),
            wrong_shape,
        ),
        ("of-nothing", chunked(shape, b"\x80"), wrong_parts),
        ("parts-are-a-list", chunked(shape, b"\x92" + one + one), wrong_parts),
        ("part-missing", chunked(shape, mapping(pack("0"), one, pack("2"), one)), wrong_parts),
        ("part-is-text", chunked(shape, parts(one, pack("a"))), wrong_parts),
        ("part-of-two-axes", chunked(shape, parts(one, array([1, 1], "int8", b"a"))), wrong_parts),
        ("part-too-few", chunked(shape, parts(one)), "expected parts of one dtype for shape [2], got 1 elements"),
        (
            "part-too-many",
            chunked(shape, parts(one, one, one)),
            "expected parts of one dtype for shape [2], got 3 elements",
        ),
        (
            "parts-of-two-dtypes",
            chunked(shape, parts(one, array([1], "uint8", b"a"))),
            "expected parts of one dtype for shape [2], got 2 elements",
        ),
        (
            "of-nothing-over-the-limit",
            chunked(parts(b"\x00", pack(2**62), pack(2**62)), parts(array([0], "int8"))),
            "expected a shape, got [0, 4611686018427387904, 4611686018427387904] (array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size.)",
        ),
    ]:
        yield Hostile(f"chunked-{name}", built, f"{message} at byte {len(built)}, $.w")


def _wholes() -> Iterator[Hostile]:
    yield Hostile("empty", b"", "expected a value, got the end of the data at byte 0, $")
    yield Hostile("trailing-byte", b"\x80\x00", "expected the end, got 1 more bytes at byte 1, $")
    yield Hostile("two-checkpoints", at("w", b"\x01") * 2, "expected the end, got 4 more bytes at byte 4, $")
    yield Hostile("text-file", b"# hello\n", "expected the end, got 7 more bytes at byte 1, $")
    yield Hostile("zip", b"PK\x03\x04" + bytes(20), "expected the end, got 23 more bytes at byte 1, $")
    yield Hostile("pickle", b"\x80\x04N.", "expected the end, got 3 more bytes at byte 1, $")
    yield Hostile(
        "no-value-for-a-key", b"\x82\xa1a\x01\xa1b", "expected a value, got the end of the data at byte 6, $.b"
    )
    yield Hostile(
        "bad-in-a-list", at("w", b"\x92\x90\x91\xc1"), "expected a value, got the byte 0xc1 at byte 6, $.w[1][0]"
    )
    nest = b"\x91" * 257 + b"\xc0"
    yield Hostile("nested-257-levels", nest, "expected at most 256 levels, got more at byte 257, $" + "[0]" * 256)
    inside = b""
    for _ in range(300):
        inside = ext(2, b"\x92" + inside)
    yield Hostile(
        "extensions-in-extensions", at("w", inside), "expected a complex number, got something else at byte 9, $.w"
    )


def _compressed() -> Iterator[Hostile]:
    """Damage that the compressed formats find; the file's own name follows the message."""
    whole = at("w", array([64], "int8", bytes(range(64))))
    zipped, packed = (
        gzip.compress(whole, 9, mtime=0),
        zstd.compress(whole, options={zstd.CompressionParameter.checksum_flag: 1}),
    )
    ended = "expected a whole compressed file, got Compressed file ended before the end-of-stream marker was reached in"
    yield Hostile("gzip-cut", zipped[:-9], ended)
    yield Hostile("gzip-only-magic", zipped[:2], ended)
    yield Hostile(
        "gzip-wrong-check",
        zipped[:-8] + bytes(4) + zipped[-4:],
        "expected a whole compressed file, got CRC check failed 0x0 !=",
    )
    yield Hostile(
        "gzip-garbage-after", zipped + b"garbage", "expected a whole compressed file, got Not a gzipped file (b'ga') in"
    )
    yield Hostile(
        "gzip-garbage-inside",
        zipped[:10] + b"\xff" * 8 + zipped[18:],
        "expected a whole compressed file, got Error -3 while decompressing data:",
    )
    yield Hostile(
        "gzip-other-method",
        zipped[:2] + b"\x07" + zipped[3:],
        "expected a whole compressed file, got Unknown compression method in",
    )
    yield Hostile(
        "gzip-of-nothing", gzip.compress(b"", mtime=0), "expected a value, got the end of the data at byte 0, $"
    )
    yield Hostile(
        "gzip-of-gzip",
        gzip.compress(zipped, mtime=0),
        f"expected the end, got {len(zipped) - 1} more bytes at byte 1, $",
    )
    yield Hostile("zstd-cut", packed[:-9], ended)
    yield Hostile("zstd-only-magic", packed[:4], ended)
    yield Hostile(
        "zstd-wrong-check",
        packed[:-4] + bytes(4),
        "expected a whole compressed file, got Unable to decompress Zstandard data: Restored data doesn't match checksum in",
    )
    yield Hostile(
        "zstd-garbage-after",
        packed + b"garbage",
        "expected a whole compressed file, got Unable to decompress Zstandard data: Unknown frame descriptor in",
    )


def hostile() -> list[Hostile]:
    return [*_wholes(), *_lengths(), *_arrays(), *_keys(), *_chunks()]


def compressed() -> list[Hostile]:
    return list(_compressed())


def large() -> dict[str, bytes]:
    """Too large to keep: built where they are wanted."""
    zeros = bytes(2**24)
    return {
        "100,000 lists": b"\x91" * 100_000,
        "100,000 maps": b"\x81\xa0" * 100_000,
        "100,000 extensions": b"\xc9\x00\x10\x00\x00\x02\x92" * 100_000,
        "100,000 arrays as shapes": b"\xc9\x00\x10\x00\x00\x01\x93" * 100_000,
        "100,000 maps as keys": b"\x81" * 100_000,
        "a million axes": at("w", ext(1, b"\x93\xdd\x00\x0f\x42\x40" + (b"\xcf" + b"\xff" * 8) * 1_000_000)),
        "a long name": at("w", array([1], "x" * 1_000_000)),
        "a long key twice": mapping(pack("k" * 1_000_000), b"\x01", pack("k" * 1_000_000), b"\x01"),
        "a long key to damage": at("k" * 1_000_000, b"\xc1"),
        "zeros": zeros,
        "0xff": b"\xff" * 2**20,
    }


def main() -> None:
    FILES.mkdir(exist_ok=True)
    for old in FILES.iterdir():
        old.unlink()
    for name, data, _ in [*hostile(), *compressed()]:
        (FILES / f"{name}.msgpack").write_bytes(data)


if __name__ == "__main__":
    main()
