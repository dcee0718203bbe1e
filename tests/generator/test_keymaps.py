"""`treaty check` compares the key maps of a module with the classes that they name."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from treaty.generator import commands

STATE = """\
from numpy import ndarray as Array
from jaxtyping import Float32
from treaty.schema import state
from treaty.schema.keymap import KeyMap, Rule


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


TORCH = KeyMap([Rule("weight", "kernal", "o i -> i o"), Rule("bias", "bias")], of=Linear)
ANYBODYS = KeyMap([Rule("a", "b")])
"""
SAID = """\
my_state.py:13: KEYMAP-field: TORCH: expected a field of Linear, got kernal; there is kernel
my_state.py:13: KEYMAP-field: TORCH: expected a rule for each field of Linear, got none for kernel
"""


def test_a_misspelt_field_fails_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.treaty]\nmodules = ["my_state"]\n')
    path = tmp_path / "my_state.py"
    path.write_text(STATE)
    runner = CliRunner()
    assert runner.invoke(commands.generate, []).exit_code == 0

    done = runner.invoke(commands.check, [])
    assert (done.exit_code, done.output) == (1, SAID)

    path.write_text(STATE.replace("kernal", "kernel"))
    assert runner.invoke(commands.check, []).output == "1 generated module fresh\n"
