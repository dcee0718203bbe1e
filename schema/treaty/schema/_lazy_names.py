"""Public names of a package that are imported when first used, from one table: home module -> its names.

`from treaty.schema import state` takes 0.08 s, with all names 0.5 (`python -m benchmarks imports` times the first).
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_names(
    module: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package; `homes` names its modules from the package on: `"_state.abstract"`.

    One dot in front means beside the package, as in an import: `"._state.abstract"`.
    Bind both where type checkers do not look (`if TYPE_CHECKING: ... else:`), so that they refuse names that are not there.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value: object = getattr(import_module(f".{home_of[name]}", module), name)
        vars(sys.modules[module])[name] = value  # found without this function the next time
        return value

    def every_name() -> list[str]:
        return sorted({*vars(sys.modules[module]), *home_of})

    return find, every_name
