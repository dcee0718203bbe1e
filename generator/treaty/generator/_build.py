"""What a build adds to a distribution: the generated code of the project's schemas, made anew, wherever it is put."""

from pathlib import Path, PurePosixPath

from treaty.generator._gate import Gate
from treaty.generator._generate import Output, outputs_of
from treaty.generator._locks import lock_path
from treaty.generator._modules import Module, read_modules, with_used
from treaty.generator._process import read_locks
from treaty.generator._project import Project
from treaty.schema import TreatyError
from treaty.schema.evolution.lock_json import is_lock

_NO_MODULES = (
    'the build is to generate code, but pyproject.toml lists no modules:\n[tool.treaty]\nmodules = ["my.state"]'
)


def lock_files(root: Path) -> list[Path]:
    """The locks of a project, found without importing its modules: an sdist needs them, to build the history from."""
    project = Project.find(root)
    packages = {name.partition(".")[0] for name in project.modules}
    folders = [folder for top in map(Path, project.search_path) for name in packages if (folder := top / name).is_dir()]
    files = [path for folder in {*folders, *filter(None, [project.out])} for path in folder.rglob("*.lock")]
    files += [path for top in map(Path, project.search_path) for path in top.glob("*_treaty.lock")]
    return sorted({path for path in files if is_lock(path.read_text(encoding="utf-8", errors="replace"))})


def build_outputs(root: Path) -> list[Output]:
    """The generated files of the project at `root`. Writes nothing; what a TreatyError says is for the build's log.

    What breaks earlier checkpoints is not built. What is not locked yet is: one builds to try a change, too.
    """
    try:
        project = Project.find(root)
        if not project.modules:
            raise TreatyError(_NO_MODULES)
        found = with_used(read_modules(project.modules, project), project)
        outputs = [output for module in found for output in (*outputs_of(module, project), *_lock(module, project))]
    except TreatyError as error:
        raise TreatyError(f"treaty could not generate the code of this project:\n{_indented(str(error))}") from error
    if broken := Gate(found, read_locks(found, project)[0]).findings():
        lines = _indented("\n".join(map(str, broken)))
        raise TreatyError(f"earlier checkpoints of this project could not be restored any more:\n{lines}")
    return outputs


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _lock(module: Module, project: Project) -> list[Output]:
    """The lock as it is: whoever has the distribution can generate the same code again."""
    path = lock_path(module, project)
    name = str(PurePosixPath(module.output).with_suffix(".lock"))
    return [Output(path, name, path.read_text(encoding="utf-8"))] if path.exists() else []
