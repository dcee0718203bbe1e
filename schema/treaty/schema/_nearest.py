"""What was probably meant by a name that is not there. Looked for only when something failed."""

import os
import pkgutil
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from typing import Final

_MOST: Final = 10_000  # names of a folder that are looked at
_SHOWN: Final = 3
_LIKENESS: Final = 0.65  # of 1, which is the same
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def near_names(name: str, names: Iterable[str]) -> list[str]:
    return get_close_matches(name, list(names), _SHOWN, _LIKENESS)


def near_modules(module: str, error: ImportError) -> list[str]:
    """Modules beside the part of the name that was not found: in the package above it, or in the folders of this project."""
    missing = error.name or ""
    if not isinstance(error, ModuleNotFoundError) or not f"{module}.".startswith(f"{missing}."):
        return []
    above, _, last = missing.rpartition(".")
    here = os.getcwd()
    folders = (
        list(getattr(sys.modules.get(above), "__path__", []))
        if above
        else [here, *(one for one in sys.path if one.startswith(here + os.sep) and "site-packages" not in one)]
    )
    names = dict.fromkeys(one.name for one in islice(pkgutil.iter_modules(folders), _MOST))
    return [f"{above}.{name}" if above else name for name in near_names(last, names)]


def did_you_mean(near: Iterable[str]) -> str:
    """The end of a message; nothing where nothing is near."""
    found = list(near)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def near_paths(path: str) -> list[str]:
    """What lies beside a path that leads nowhere: of a step the nearest steps, else names that are alike. Nothing of a URL."""
    if "://" in path or "\0" in path or os.path.lexists(path):
        return []
    folder, name = os.path.split(path.rstrip("/"))
    with suppress(OSError), os.scandir(folder or os.curdir) as entries:
        names = [entry.name for entry in islice(entries, _MOST)]
        return [os.path.join(folder, one) for one in _near_steps(name, names) or near_names(name, names)]
    return []


def _near_steps(name: str, names: list[str]) -> list[str]:
    """Those before and after, of names that differ in one number."""
    found = list(_NUMBER.finditer(name))
    if not found:
        return []
    start, end = found[-1].span()
    wanted = int(found[-1][0])
    form = re.compile(f"{re.escape(name[:start])}([0-9]{{1,18}}){re.escape(name[end:])}")
    steps = sorted((int(match[1]), one) for one in names if (match := form.fullmatch(one)))
    before = [one for step, one in steps if step <= wanted][-1:]
    return before + [one for step, one in steps if step > wanted][:1]
