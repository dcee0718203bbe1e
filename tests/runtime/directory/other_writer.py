"""Another process that saves, without locks, as on another host: stops where it is told to, until it is told to go on.

Each line of its input is a JSON object: the path, the seed, where to stop, and whether it looks like another host.
"""

import fcntl
import json
import sys
from typing import Any

from tests.runtime.directory.states import train
from treaty.runtime.directory import save
from treaty.runtime.formats.directory import owner as _owner
from treaty.runtime.formats.directory import places as _places
from treaty.runtime.formats.directory import plan as _plan
from treaty.runtime.formats.directory import write as _write
from treaty.schema import TreatyError

vars(_plan).update(SMALL_BYTES=64, CHUNK_BYTES=256)
vars(fcntl)["flock"] = lambda *_: None  # what a mount with local locks amounts to

STOPS: dict[str, tuple[Any, str]] = {
    "writing": (_write, "_write_piece"),
    "committing": (_places.Local, "commit"),
    "cleaning": (_places.Local, "_clean"),
}


def tell(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    machine = _owner._machine()
    for line in sys.stdin:
        order = json.loads(line)
        vars(_owner)["_machine"] = lambda order=order: "f" * 6 if order["elsewhere"] else machine
        owner, name = STOPS[order["stop"]]
        real = getattr(owner, name)
        skip = [True] * order["skip"]

        def stopping(*args: Any, real: Any = real, skip: list[bool] = skip, **options: Any) -> Any:
            if skip:
                skip.pop()
            else:
                skip += [True] * 1000
                tell("stopped")
                sys.stdin.readline()
            return real(*args, **options)

        setattr(owner, name, stopping)
        try:
            save(order["path"], train(order["seed"]))
            tell("saved")
        except TreatyError as error:
            tell(f"failed: {error}")
        finally:
            setattr(owner, name, real)


if __name__ == "__main__":
    main()
