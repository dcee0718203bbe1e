"""Runs the notebook of examples/ as Jupyter would, without Jupyter: `python -m tests.examples.notebook` writes its outputs."""

import ast
import contextlib
import io
import json
import linecache
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

NOTEBOOK: Final = Path(__file__).parents[2] / "examples" / "notebook" / "treaty.ipynb"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of its cells, run in this process as `__main__`, in a new folder."""
    scope = vars(sys.modules["__main__"])
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number, cell in enumerate(code, 1):
                cell["execution_count"] = number
                cell["outputs"] = _run("".join(cell["source"]), number, scope)
        finally:
            os.chdir(before)
    return notebook


def _run(source: str, number: int, scope: dict[str, Any]) -> list[dict[str, Any]]:
    name = f"<cell {number}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), scope)
        value = eval(compile(ast.Expression(last.value), name, "eval"), scope) if isinstance(last, ast.Expr) else None
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def text(notebook: dict[str, Any]) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    done = text(executed(json.loads(NOTEBOOK.read_text())))
    if "--print" in sys.argv:
        sys.stdout.write(done)
    else:
        NOTEBOOK.write_text(done)
