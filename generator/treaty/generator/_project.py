"""The user's project: `[tool.treaty]` in its pyproject.toml, and where modules and their output live."""

import sys
import tomllib
from pathlib import Path

from attrs import frozen

from treaty.schema import TreatyError


@frozen
class Project:
    """`modules` are generated when none is named; `out` is where output goes, if not beside its schema."""

    root: Path
    modules: tuple[str, ...] = ()
    out: Path | None = None

    @classmethod
    def find(cls, start: Path | None = None) -> "Project":
        """The project around a directory: the nearest pyproject.toml upwards, or the directory itself."""
        start = (start or Path.cwd()).resolve()
        for root in (start, *start.parents):
            if (root / "pyproject.toml").is_file():
                return cls._read(root)
        return cls(start)

    @classmethod
    def _read(cls, root: Path) -> "Project":
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

    def output_root(self, module: str, file: str) -> Path:
        """The directory that relative paths of generated files count from."""
        if self.out is not None:
            return self.out
        source = Path(file).resolve()
        above = source.parent if source.name == "__init__.py" else source
        return above.parents[module.count(".")]

    def has(self, module: str, beside: Path) -> bool:
        """Whether a schema module is still there, without importing it; `beside` is a file that was made from it."""
        roots = [*map(Path, self.search_path), *map(Path, sys.path), *beside.parents]
        name = module.replace(".", "/")
        return any((root / f"{name}.py").exists() or (root / name / "__init__.py").exists() for root in roots)


def relative_path(module: str) -> str:
    """`my.state_treaty` -> `my/state_treaty.py`."""
    return module.replace(".", "/") + ".py"
