"""`[tool.treaty]` in a project's pyproject.toml: which modules commands are for when none is named, and where those lie."""

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from attrs import evolve, field, frozen

from treaty.schema._errors import TreatyError
from treaty.schema._module_files import folder_of, name_in


@frozen
class Settings:
    """`modules` are meant when none is named; `out` is where generated code goes, if not beside its schema.

    `src` are the folders that a program imports its modules from, beside src/ and the project's own; `files` are those that were
    named, and the modules that they are.
    """

    root: Path
    modules: tuple[str, ...] = ()
    out: Path | None = None
    src: tuple[Path, ...] = ()
    files: Mapping[Path, str] = field(factory=dict)

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
        """Of the project around here, or around the files that are named, with their modules."""
        here = cls.find()
        files = [file for name in named if name.endswith(".py") and (file := Path(name).resolve()).is_file()]
        projects = {file: here._project_of(file) for file in files}
        first = next(iter(projects.values()), here)
        for file, project in projects.items():
            if project.root != first.root:
                raise TreatyError(
                    f"{os.path.relpath(file)}: expected a file of the project in {os.path.relpath(first.root)}, got one of that in "
                    f"{os.path.relpath(project.root)}; name the files of each project by themselves"
                )
        return first._with_files(files)

    def _project_of(self, file: Path) -> Self:
        """That of the nearest pyproject.toml, as for commands that are called where the file is."""
        if any(file.is_relative_to(folder) for folder in self.src):
            return self
        nearest = type(self).find(file.parent)
        has_own = (nearest.root / "pyproject.toml").is_file()
        return nearest if has_own or not file.is_relative_to(self.root) else self

    def _with_files(self, files: Iterable[Path]) -> Self:
        roots = [*self.src, *(folder for folder in (self.root / "src",) if folder.is_dir())]
        folders = {file: folder_of(file, self.root, roots) for file in files}
        src = tuple(dict.fromkeys((*self.src, *(one for one in folders.values() if str(one) not in self.search_path))))
        names = {file: name_in(folder, file) for file, folder in folders.items()}
        return evolve(self, src=src, files={**self.files, **names})

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
        found = cls(root, (), root / out if out else None, tuple((root / one).resolve() for one in src))
        files = {one: (root / one).resolve() for one in modules if one.endswith(".py")}
        found = found._with_files(file for file in files.values() if file.is_file())
        return evolve(
            found, modules=tuple(found.files.get(files[one], one) if one in files else one for one in modules)
        )

    @property
    def search_path(self) -> list[str]:
        """Where modules are looked for besides the installed ones: the folders of `src`, src/ where there is one, and the root."""
        return [str(path) for path in dict.fromkeys((*self.src, self.root / "src", self.root)) if path.is_dir()]

    def module_name(self, named: str) -> str:
        """A module by its dotted name, or by its file, as shells complete it."""
        if not named.endswith(".py"):
            return named
        return self.files.get(Path(named).resolve(), named)

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
