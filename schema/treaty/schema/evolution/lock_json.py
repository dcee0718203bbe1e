"""The file of a lock: JSON that is laid out to be reviewed, one field a line, and read strictly.

    {"treaty": "lock", "version": 1, "module": "my.state", "log": [
     {"event": "revision", "class": "my.state:Linear", "revision": 1, "message": "first",
      "declares": {
       "my.state:Linear": {"kind": "state", "dims": ["d"], "fields": [
        {"key": "bias", "type": {"kind": "array", "dtype": "float32", "dims": ["d"]}}
       ]}
      },
      "digest": "sha256:…",
      "chain": "sha256:…"}
    ]}

Left out where there is nothing to say: `message`, `changes` (in words, since the revision before), `migration`, `uses` (the
revisions of the classes that it reaches), and `root`, which is the id of a generic class. The other events are `moved`, `orphaned`, `gone` and `waived`.
Each says what log it `follows`, which entries from before that was written do not.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, assert_never

from treaty.schema._errors import NewerFormatError, SchemaError
from treaty.schema.evolution.lock import SETTLE, Entry, Lock, Moved, Orphaned, Released, Revised, Waived

VERSION: Final = 1
_START: Final = '{"treaty": "lock", '
_CONFLICT: Final = ("<<<<<<<", "=======", ">>>>>>>")


class NewerLockError(SchemaError, NewerFormatError):
    """A lock that a newer Treaty wrote."""

    def __init__(self, name: str, found: str) -> None:
        NewerFormatError.__init__(self, name, found)
        self.problems = (str(self),)

    __str__ = NewerFormatError.__str__


def is_lock(text: str) -> bool:
    """Whether a file is one of ours at all: other tools have `.lock` files too."""
    return text.startswith(_START)


def parse(text: str, name: str = "the lock") -> Lock:
    if any(line.startswith(_CONFLICT) for line in text.splitlines()):
        raise SchemaError(
            f"{name}: two branches locked revisions, and git could not merge them; {SETTLE.format(file=name)}"
        )
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{name}: expected a lock in JSON, got {error}; {_restore(name)}") from None
    reader = _Reader(name)
    if not isinstance(data, dict) or data.get("treaty") != "lock":
        raise reader.wrong('"treaty": "lock"', data, "the start")
    version = data.get("version")
    if type(version) is int and version > VERSION:
        raise NewerLockError(name, f"version {version}, this one reads up to {VERSION}")
    if version != VERSION:
        raise reader.wrong(f'"version": {VERSION}', version, "the start")
    reader.members(data, "the start", {"treaty", "version"}, {"module": str, "log": list}, {})
    lock = Lock(data["module"], tuple(reader.entry(one, f"log[{n}]") for n, one in enumerate(data["log"])), name)
    lock.lines  # noqa: B018 - follows the log, and checks the chain
    return lock


def to_text(lock: Lock) -> str:
    start = f'{_START}"version": {VERSION}, "module": {json.dumps(lock.module)}, "log": ['
    entries = ",\n".join("\n".join(_lines(entry)) for entry in lock.log)
    return f"{start}\n{entries}\n]}}\n"


def _lines(entry: Entry) -> Iterator[str]:
    """An entry, one line for each thing that a reviewer looks at."""
    said: dict[str, Any]
    if isinstance(entry, Revised):
        said = {"event": "revision", "class": entry.symbol, "revision": entry.number, "message": entry.message}
        yield f" {_object(said)[:-1]},"
        if entry.root != entry.symbol:
            yield f'  "root": {json.dumps(entry.root)},'
        if entry.changes:
            yield '  "changes": ['
            yield ",\n".join(f"   {json.dumps(change)}" for change in entry.changes)
            yield "  ],"
        if entry.migration is not None:
            yield f'  "migration": {_object({"kind": entry.migration.kind, "digest": entry.migration.digest})},'
        if entry.uses:
            yield f'  "uses": {json.dumps(entry.uses)},'
        yield '  "declares": {' + ("" if entry.declares else "},")
        if entry.declares:
            yield ",\n".join(_declaration(id, data) for id, data in entry.declares.items())
            yield "  },"
        yield f'  "digest": {json.dumps(entry.digest)},'
        yield f'  "chain": {json.dumps(entry.chain)}{_follows(entry)}}}'
    elif isinstance(entry, Moved):
        said = {"event": "moved", "message": entry.message}
        yield f" {_object(said)[:-1]},"
        yield '  "classes": {'
        yield ",\n".join(f"   {json.dumps(old)}: {json.dumps(new)}" for old, new in entry.names.items())
        yield f"  }}{_follows(entry)}}}"
    elif isinstance(entry, Orphaned):
        event = {"event": "gone"} if entry.number is None else {"event": "orphaned"}
        number = {} if entry.number is None else {"revision": entry.number}
        said = {**event, "class": entry.symbol, **number, "why": entry.why}
        yield f" {_object(said)[:-1]}{_follows(entry)}}}"
    elif isinstance(entry, Waived):
        said = {"event": "waived", "rule": entry.rule, "class": entry.symbol, "revision": entry.number}
        yield f" {_object({**said, 'why': entry.why})[:-1]}" + ("," if entry.findings else f"{_follows(entry)}}}")
        if entry.findings:
            yield '  "findings": ['
            yield ",\n".join(f"   {json.dumps(one)}" for one in entry.findings)
            yield f"  ]{_follows(entry)}}}"
    else:
        assert_never(entry)


def _follows(entry: Entry) -> str:
    return f',\n  "follows": {json.dumps(entry.follows)}' if entry.follows else ""


def _declaration(id: str, data: Mapping[str, Any]) -> str:
    rest = {name: one for name, one in data.items() if name != "fields"}
    fields = ",\n".join(f"    {json.dumps(one)}" for one in data["fields"])
    opening = f'   {json.dumps(id)}: {json.dumps(rest)[:-1]}, "fields": ['
    return f"{opening}\n{fields}\n   ]}}" if fields else f"{opening}]}}"


def _object(said: Mapping[str, Any]) -> str:
    return json.dumps({name: one for name, one in said.items() if one != ""})


def _restore(name: str) -> str:
    return f"restore the file (git checkout -- {name}) and run treaty lock"


class _Reader:
    """Entries from JSON data: each member is there, is of its type, and is known."""

    def __init__(self, name: str) -> None:
        self._name = name

    def wrong(self, expected: str, got: object, where: str) -> SchemaError:
        text = json.dumps(got)
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        return SchemaError(f"{self._name}: expected {expected}, got {shown} at {where}; {_restore(self._name)}")

    def members(
        self,
        data: Any,
        where: str,
        known: set[str],
        needed: Mapping[str, type],
        may: Mapping[str, type],
    ) -> None:
        if not isinstance(data, dict):
            raise self.wrong("an object", data, where)
        for name, type_ in {**needed, **may}.items():
            if (name in needed or name in data) and type(data.get(name)) is not type_:
                raise self.wrong(f"{name!r}: {_WORDS[type_]}", data.get(name), where)
        for name in data:
            if name not in {*known, *needed, *may}:
                raise self.wrong(f"nothing but {', '.join(sorted({*known, *needed, *may}))}", name, where)

    def entry(self, data: Any, where: str) -> Entry:
        event = data.get("event") if isinstance(data, dict) else None
        if not isinstance(event, str):
            raise self.wrong("an object with an event", data, where)
        if event not in _EVENTS:
            raise NewerLockError(self._name, f"with {event[:40]!r} at {where}, which this one does not know")
        return _EVENTS[event](self, data, where)

    def revised(self, data: Any, where: str) -> Entry:
        needed = {"class": str, "revision": int, "declares": dict, "digest": str, "chain": str}
        may = {"message": str, "root": str, "uses": dict, "changes": list, "migration": dict, "follows": str}
        self.members(data, where, {"event"}, needed, may)
        for change in data.get("changes", ()):
            if not isinstance(change, str):
                raise self.wrong("changes in words", change, where)
        for used, number in data.get("uses", {}).items():
            if type(number) is not int:
                raise self.wrong("revisions by class", {used: number}, f"{where}.uses")
        for id, one in data["declares"].items():
            if not isinstance(one, dict) or not isinstance(one.get("fields"), list):
                raise self.wrong("a class with fields", one, f"{where}.declares[{json.dumps(id)}]")
        migration = data.get("migration")
        if migration is not None:
            self.members(migration, f"{where}.migration", set(), {"kind": str, "digest": str}, {})
        return Revised(
            data["class"],
            data["revision"],
            data.get("root", data["class"]),
            data["declares"],
            data["digest"],
            data["chain"],
            data.get("uses", {}),
            tuple(data.get("changes", ())),
            None if migration is None else Released(migration["kind"], migration["digest"]),
            data.get("message", ""),
            data.get("follows", ""),
        )

    def moved(self, data: Any, where: str) -> Entry:
        self.members(data, where, {"event"}, {"classes": dict}, {"message": str, "follows": str})
        for old, new in data["classes"].items():
            if not isinstance(new, str) or ":" not in old or ":" not in new:
                raise self.wrong("module:Class: module:Class", {old: new}, where)
        return Moved(data["classes"], data.get("message", ""), data.get("follows", ""))

    def orphaned(self, data: Any, where: str) -> Entry:
        number = {"revision": int} if data["event"] == "orphaned" else {}
        self.reasoned(data, where, {"class": str, **number}, {})
        return Orphaned(data["class"], data.get("revision"), data["why"], data.get("follows", ""))

    def waived(self, data: Any, where: str) -> Entry:
        self.reasoned(data, where, {"rule": str, "class": str, "revision": int}, {"findings": list})
        findings = data.get("findings", [])
        if not all(isinstance(one, str) for one in findings) or ("findings" in data and not findings):
            raise self.wrong("findings in words", findings, where)
        return Waived(
            data["rule"], data["class"], data["revision"], data["why"], tuple(findings), data.get("follows", "")
        )

    def reasoned(self, data: Any, where: str, needed: Mapping[str, type], may: Mapping[str, type]) -> None:
        """What is given up or waived says why."""
        self.members(data, where, {"event"}, {**needed, "why": str}, {**may, "follows": str})
        if not data["why"].strip():
            raise self.wrong("'why': a reason", data["why"], where)


_EVENTS: Final[Mapping[str, Callable[[_Reader, Any, str], Entry]]] = {
    "revision": _Reader.revised,
    "moved": _Reader.moved,
    "orphaned": _Reader.orphaned,
    "gone": _Reader.orphaned,
    "waived": _Reader.waived,
}
_WORDS: Final[Mapping[type, str]] = {str: "text", int: "a number", list: "a list", dict: "an object"}
