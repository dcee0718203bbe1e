"""`generate`: from module names to text, and which files were generated."""

from pathlib import Path

from attrs import frozen

from treaty.generator._history import history_text
from treaty.generator._locks import code_path, history_of, lock_of
from treaty.generator._modules import Module, read_modules
from treaty.generator._project import Project, relative_path
from treaty.generator.plan import plan_module
from treaty.generator.render import render
from treaty.schema._module_files import generated_from
from treaty.schema.evolution.history import History
from treaty.schema.evolution.lock import Lock


@frozen
class Output:
    """One generated file: `path` is its place in the source tree, `name` its place among installed modules."""

    path: Path
    name: str
    text: str


def generate(module: str, project: Project | None = None) -> dict[str, str]:
    """The generated text of a module, and of its history where it has a lock, by relative path. Pure: writes nothing; the
    module runs in another process."""
    project = project or Project.find()
    (found,) = read_modules([module], project)
    return {output.name: output.text for output in outputs_of(found, project)}


def outputs_of(module: Module, project: Project, lock: Lock | None = None) -> list[Output]:
    """The generated files of a module, as they should be. `lock` is that of the module, where it is read already."""
    lock = lock or lock_of(module, project)
    path = code_path(module, project)
    outputs = [Output(path, module.output, text_of(module, lock))]
    if lock is not None:
        name = relative_path(f"{module.generated[module.name]}_history")
        outputs.append(Output(history_of(path), name, history_text(module, lock)))
    return outputs


def text_of(module: Module, lock: Lock | None = None) -> str:
    revisions = {} if lock is None else locked_revisions(module, lock)
    return render(plan_module(module.name, module.roots, module.classes, module.generated, revisions=revisions))


def locked_revisions(module: Module, lock: Lock) -> dict[str, int]:
    """The revisions of the classes that are declared as they were locked last."""

    def known(symbol: str) -> History:
        return lock.history(symbol, module.steps.get(symbol))

    found = {}
    for symbol, schema in module.declared.items():
        history = known(symbol)
        if history.present(schema, known) == history.last:
            found[symbol] = history.last
    return found


def orphans(outputs: dict[Path, str], project: Project) -> list[tuple[Path, str]]:
    """Generated files beside these outputs whose schema module is gone, or that another file took over."""
    found = []
    former = [path.parent.with_name(f"{path.parent.name}_treaty.py") for path in outputs if path.stem == "_treaty"]
    beside = [path for folder in sorted({path.parent for path in outputs}) for path in sorted(folder.glob("*.py"))]
    for path in dict.fromkeys([*beside, *former]):
        if path.is_file():
            source = generated_from(path)
            if path in outputs or source is None:
                continue
            if source in outputs.values() or not (source in project.modules or project.has(source, path)):
                found.append((path, f"orphan: generated from {source}, which no longer generates it; delete it"))
    return found
