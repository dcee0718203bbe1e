"""The main job, end to end, in a temporary folder: declare, generate, check with mypy, round trip, one wrong restore."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax

QUICKSTART = Path(__file__).parent / "quickstart"
console = Console()


def run(*command: str, cwd: Path) -> None:
    """Show a command and what it prints; stop where it fails."""
    console.print(f"[bold]$ {' '.join(command)}[/bold]")
    module = {"treaty": ["-m", "treaty.cli"], "mypy": ["-m", "mypy"], "python": []}[command[0]]
    done = subprocess.run(
        [sys.executable, *module, *command[1:]],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    console.print(done.stdout.rstrip(), markup=False, highlight=False)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("state.py", "restore.py"):
            shutil.copy(QUICKSTART / file, folder)
        console.rule("1. Declare the state: state.py")
        console.print(Syntax((folder / "state.py").read_text(), "python", background_color="default"))
        console.rule("2. Generate its code")
        run("treaty", "generate", "state", cwd=folder)
        console.print(Syntax(_excerpt(folder / "state_treaty.py"), "python", background_color="default"))
        console.rule("3. mypy checks declaration, generated code and use")
        run("mypy", "--strict", "state.py", "state_treaty.py", "restore.py", cwd=folder)
        console.rule("4. Round trip, and a wrong restore")
        run("python", "restore.py", cwd=folder)


def _excerpt(path: Path) -> str:
    """The reader of the first class: what a restore runs."""
    text = path.read_text()
    start = text.index("def linear_read(")
    return text[start : text.index("\n\n\n", start)]


if __name__ == "__main__":
    main()
