"""`[tool.treaty]` in a project's pyproject.toml: which modules commands are for when none is named, and where those lie."""

import tomllib
from pathlib import Path
from typing import Self

from attrs import frozen

from treaty.schema._errors import TreatyError


@frozen
class Settings:
    """`modules` are meant when none is named; `out` is where generated code goes, if not beside its schema."""

    root: Path
    modules: tuple[str, ...] = ()
    out: Path | None = None

    @classmethod
    def find(cls, start: Path | None = None) -> Self:
        """Of the project around a directory: the nearest pyproject.toml upwards, or the directory itself."""
        start = (start or Path.cwd()).resolve()
        for root in (start, *start.parents):
            if (root / "pyproject.toml").is_file():
                return cls._read(root)
        return cls(start)

    @classmethod
    def _read(cls, root: Path) -> Self:
        try:
            data = tomllib.loads((root / "pyproject.toml").read_text())
        except tomllib.TOMLDecodeError as error:
            raise TreatyError(f"{root / 'pyproject.toml'}: {error}") from error
        options = data.get("tool", {}).get("treaty", {})
        unknown = sorted(set(options) - {"modules", "out"})
        if unknown:
            raise TreatyError(f"[tool.treaty] has no option {unknown[0]!r}; expected modules, out")
        modules, out = options.get("modules", []), options.get("out")
        if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
            raise TreatyError('[tool.treaty] modules: expected a list of module names, such as ["my.state"]')
        if out is not None and not isinstance(out, str):
            raise TreatyError('[tool.treaty] out: expected a directory, such as "generated"')
        return cls(root, tuple(modules), root / out if out else None)

    @property
    def search_path(self) -> list[str]:
        """Where modules are looked for besides the installed ones: the root, and src/ where there is one."""
        return [str(path) for path in (self.root / "src", self.root) if path.is_dir()]

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
