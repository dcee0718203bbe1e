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
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def near_names(name: str, names: Iterable[str]) -> list[str]:
    return get_close_matches(name, list(names), _SHOWN)


def near_modules(module: str) -> list[str]:
    """Modules beside the one that cannot be imported, in the package above it; of no package, in the folders of Python's path."""
    above, _, last = module.rpartition(".")
    folders = list(getattr(sys.modules.get(above), "__path__", [])) if above else [os.getcwd(), *sys.path]
    names = dict.fromkeys(one.name for one in islice(pkgutil.iter_modules(folders), _MOST))
    return [f"{above}.{name}" if above else name for name in near_names(last, names)]


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
