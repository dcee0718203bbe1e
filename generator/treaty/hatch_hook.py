"""The hatchling build hook: `[tool.hatch.build.hooks.treaty]`.

Outside `treaty.generator` for its cost: hatchling imports all hooks of an environment as soon as a project uses one.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl


class TreatyBuildHook(BuildHookInterface[Any]):
    """Adds the generated modules to wheels and sdists, and writes them into the tree only for editable installs.

    Included by force from a temporary directory, they replace stale copies of the tree and need no care about
    .gitignore; and a checkout is as clean after a build as before.
    """

    PLUGIN_NAME = "treaty"
    _folder: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        from treaty.generator._build import build_outputs
        from treaty.generator._write import write_file
        from treaty.schema import TreatyError

        root = Path(self.root).resolve()
        try:
            outputs = build_outputs(root)
        except TreatyError as error:
            self.app.abort(f"error: {error}")  # an exception would bury the message under hatchling's frames
            return
        if version == "editable":
            for output in outputs:
                write_file(output.path, output.text)
            return
        self._folder = TemporaryDirectory(prefix="treaty-")
        for output in outputs:
            source = Path(self._folder.name, output.name)
            write_file(source, output.text)
            if self.target_name != "sdist":
                build_data["force_include"][str(source)] = output.name
            elif output.path.is_relative_to(root):
                build_data["force_include"][str(source)] = str(output.path.relative_to(root))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._folder is not None:
            self._folder.cleanup()


@hookimpl
def hatch_register_build_hook() -> type[TreatyBuildHook]:
    return TreatyBuildHook
