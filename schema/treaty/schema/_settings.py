"""`[tool.treaty]` in a project's pyproject.toml: which modules commands are for when none is named, and where those lie."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from attrs import frozen

from treaty.schema._errors import TreatyError


@frozen
class Settings:
    """`modules` are meant when none is named; `out` is where generated code goes, if not beside its schema.

    `src` are the folders that a program imports its modules from, beside src/ and the project's own.
    """

    root: Path
    modules: tuple[str, ...] = ()
    out: Path | None = None
    src: tuple[Path, ...] = ()

    @classmethod
    def find(cls, start: Path | None = None) -> Self:
        """Of the project around a directory: that of the nearest pyproject.toml upwards, or the directory itself."""
        start = (start or Path.cwd()).resolve()
        for root in (start, *start.parents):
            if (root / "pyproject.toml").is_file():
                return cls._read(root)
        return cls(start)

    @classmethod
    def around(cls, named: Iterable[str]) -> Self:
        """Of the project around here, or around a file that is named and lies in none of its folders."""
        here = cls.find()
        files = [Path(name) for name in named if name.endswith(".py") and here.module_name(name) == name]
        return next((cls.find(file.parent) for file in files if file.is_file()), here)

    @classmethod
    def _read(cls, root: Path) -> Self:
        try:
            data = tomllib.loads((root / "pyproject.toml").read_text())
        except tomllib.TOMLDecodeError as error:
            raise TreatyError(f"{root / 'pyproject.toml'}: {error}") from error
        options = data.get("tool", {}).get("treaty", {})
        unknown = sorted(set(options) - {"modules", "out", "src"})
        if unknown:
            raise TreatyError(f"[tool.treaty] has no option {unknown[0]!r}; expected modules, out, src")
        modules, out, src = options.get("modules", []), options.get("out"), options.get("src", [])
        if not _are_texts(modules):
            raise TreatyError('[tool.treaty] modules: expected a list of module names, such as ["my.state"]')
        if not _are_texts(src):
            raise TreatyError('[tool.treaty] src: expected a list of directories, such as ["scripts"]')
        for folder in src:
            if not (root / folder).is_dir():
                raise TreatyError(f"[tool.treaty] src: expected a directory, got nothing at {root / folder}")
        if out is not None and not isinstance(out, str):
            raise TreatyError('[tool.treaty] out: expected a directory, such as "generated"')
        return cls(root, tuple(modules), root / out if out else None, tuple((root / one).resolve() for one in src))

    @property
    def search_path(self) -> list[str]:
        """Where modules are looked for besides the installed ones: the folders of `src`, src/ where there is one, and the root."""
        return [str(path) for path in dict.fromkeys((*self.src, self.root / "src", self.root)) if path.is_dir()]

    def module_name(self, named: str) -> str:
        """A module by its dotted name, or by its file, as shells complete it."""
        if not named.endswith(".py"):
            return named
        file = Path(named).resolve()
        for root in map(Path, self.search_path):
            if file.is_relative_to(root):
                return ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        return named

    def module_names(self, named: tuple[str, ...], command: str) -> list[str]:
        """The modules that a command is for: those that are named, or else those of pyproject.toml."""
        names = named or self.modules
        if not names:
            raise TreatyError(
                f"no modules: name them ({command} my.state), or list them in pyproject.toml:\n"
                '[tool.treaty]\nmodules = ["my.state"]'
            )
        return [self.module_name(name) for name in names]


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
