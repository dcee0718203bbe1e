"""What a build adds to a distribution: the generated code of the project's schemas, made anew, wherever it is put."""

from pathlib import Path

from treaty.generator._generate import Output, outputs_of
from treaty.generator._modules import read_modules, with_used
from treaty.generator._project import Project
from treaty.schema import TreatyError

_NO_MODULES = (
    'the build is to generate code, but pyproject.toml lists no modules:\n[tool.treaty]\nmodules = ["my.state"]'
)


def build_outputs(root: Path) -> list[Output]:
    """The generated files of the project at `root`. Writes nothing; what a TreatyError says is for the build's log."""
    try:
        project = Project.find(root)
        if not project.modules:
            raise TreatyError(_NO_MODULES)
        found = with_used(read_modules(project.modules, project), project)
        return [output for module in found for output in outputs_of(module, project)]
    except TreatyError as error:
        lines = "\n".join(f"  {line}" for line in str(error).splitlines())
        raise TreatyError(f"treaty could not generate the code of this project:\n{lines}") from error
