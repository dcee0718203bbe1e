"""What all commands have in common: help, suggestions, exit codes, and completion in real shells."""

import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests import forked
from tests.command_runner import command_runner
from tests.faults.states import Run, run
from treaty.cli import COMMANDS, main
from treaty.runtime import CheckpointManager, save
from treaty.runtime.formats import msgpack

BIN = Path(sys.executable).parent
PROGRAM = BIN / "treaty"


def treaty(*arguments: object) -> Result:
    return command_runner().invoke(main, [*map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save("whole", run(1))
    save("other.msgpack", run(2))
    save("damaged", run(1))
    (small,) = Path("damaged").rglob("small-0.msgpack")
    small.write_bytes(small.read_bytes()[:-1] + b"?")
    Path("damaged.msgpack").write_bytes(Path("other.msgpack").read_bytes()[:-1])
    (tmp_path / "text").write_text("no checkpoint")
    with CheckpointManager("run", Run) as manager:
        manager.save(80, run(80))
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_short_help(command: str, tmp_path: Path) -> None:
    """In a process of its own: click remembers the help option of a command that another test has run without `treaty`."""
    short, long = (forked.run("treaty", command, option, cwd=tmp_path) for option in ("-h", "--help"))
    assert short.returncode == 0, short.stderr
    assert short.stdout == long.stdout
    assert short.stdout.startswith(f"Usage: treaty {command} ")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["inpsect"], "Did you mean 'inspect'?"),
        (["verfy", "x"], "Did you mean 'verify'?"),
        (["inspect", "x", "--jsn"], "Did you mean --json?"),
        (["nonsense"], "No such command 'nonsense'.\n"),
    ],
    ids=str,
)
def test_mistyped_commands_and_options_are_offered_what_was_meant(typed: list[str], meant: str) -> None:
    done = treaty(*typed)
    assert done.exit_code == 2
    assert meant in done.stderr.replace("'--json'", "--json")  # click puts options in quotes from 8.2 on


CODES: dict[str, dict[int, list[str]]] = {
    "inspect": {0: ["whole"], 1: ["damaged.msgpack"], 2: ["whole", "--at", "a..b"], 3: ["none"]},
    "verify": {0: ["whole"], 1: ["damaged"], 2: ["whole", "--jsn"], 3: ["none"]},
    "diff": {
        0: ["whole", "whole"],
        1: ["whole", "other.msgpack"],
        2: ["damaged.msgpack", "whole"],
        3: ["whole", "none"],
    },
    "plan": {
        0: ["whole", "tests.faults.states:Run"],
        1: ["whole", "tests.faults.states:Run", "--dim", "d_in=7"],
        2: ["whole", "tests.faults.states:Rum"],
        3: ["none", "tests.faults.states:Run"],
    },
    "convert": {
        0: ["whole", "new.npz"],
        1: ["damaged.msgpack", "new.npz"],
        2: ["whole", "new.unknown"],
        3: ["none", "new.npz"],
    },
    "report": {0: ["whole"], 1: ["damaged", "--verify"], 2: ["text"], 3: ["none"]},
    "steps": {0: ["run"], 2: ["whole"], 3: ["none"]},
    "remove": {0: ["whole"], 1: ["text"], 2: [], 3: ["none"]},
}


@pytest.mark.parametrize(("command", "code"), [(name, code) for name, codes in CODES.items() for code in codes])
def test_codes_mean_the_same_of_every_command(command: str, code: int, folder: Path) -> None:
    done = treaty(command, *CODES[command][code])
    assert done.exit_code == code, done.output
    assert (code == 0) == (done.stderr == "") or command in ("diff", "plan")


def test_a_part_that_is_not_there_is_so_for_every_command(folder: Path) -> None:
    assert treaty("inspect", "whole", "--at", "bais").exit_code == 3
    done = treaty("plan", "whole", "tests.faults.states:Run", "--at", "bais")
    assert (done.exit_code, "did you mean $.bias?" in done.stderr) == (3, True)


def test_messages_speak_of_options(folder: Path) -> None:
    planned = treaty("plan", "whole", "tests.faults.states:Run", "--dim", "d_in=7")
    assert "dims=" not in planned.output
    wrong = treaty("plan", "whole", "tests.faults.states:Run", "--revision", "9").stderr
    assert "--revision 9" in wrong
    assert "revision=" not in wrong
    assert "--at 'a..b': expected a path" in treaty("plan", "whole", "tests.faults.states:Run", "--at", "a..b").stderr
    assert "--force replaces it" in treaty("convert", "whole", "other.msgpack").stderr
    assert "expected --max-shard-bytes for" in treaty("convert", "whole", "x.npz", "--max-shard-bytes", "9").stderr
    assert "--dim: expected dims of" in treaty("convert", "whole", "x.npz", "--dim", "q=1").stderr


def test_alike_differences_are_one_line(tmp_path: Path) -> None:
    import numpy as np

    layers: dict[str, dict[str, Any]] = {str(number): {"w": np.full(4, number, "f4"), "lr": 0.1} for number in range(6)}
    msgpack.write_file(tmp_path / "a.msgpack", {"layers": layers})
    others = {key: {"w": one["w"] + 1 + int(key), "lr": int(key) / 10 + 0.05} for key, one in layers.items()}
    msgpack.write_file(tmp_path / "b.msgpack", {"layers": others})
    lines = treaty("diff", tmp_path / "a.msgpack", tmp_path / "b.msgpack").stdout.splitlines()
    assert lines[1].split() == ["$.layers[0..5].w", "values", "float32[4]", "float32[4]", "24", "6", "1"]
    assert len(treaty("diff", tmp_path / "a.msgpack", tmp_path / "b.msgpack", "--all").stdout.splitlines()) > len(lines)


def program(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": os.getcwd(), "TERM": "dumb"}


def by_bash(*words: str) -> list[str]:
    quoted = " ".join(map(repr, words))
    script = f"""
eval "$(_TREATY_COMPLETE=bash_source treaty)"
COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
$(complete -p treaty | sed "s/.*-F \\([^ ]*\\) .*/\\1/") treaty
printf "%s\\n" "${{COMPREPLY[@]}}"
"""
    command = [program("bash"), "--norc", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=True).stdout.splitlines()


def by_fish(*words: str) -> list[str]:
    script = f"_TREATY_COMPLETE=fish_source treaty | source; complete -C {' '.join(words)!r}"
    command = [program("fish"), "-N", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


def by_zsh(*words: str) -> list[str]:
    """It completes in its editor alone: the line is typed, with a tab, and what became of it is written to a file."""
    os.mkfifo("line")
    prepare = """
PS1=; unsetopt BEEP; autoload -Uz compinit; compinit -u -D
eval "$(_TREATY_COMPLETE=zsh_source treaty)"
tell() { print -r -- "$BUFFER" > line; exit }; zle -N tell; bindkey '^X' tell; bindkey '^I' complete-word
"""
    ours, theirs = pty.openpty()
    Path(".zshrc").write_text(prepare)
    env = {**environment(), "ZDOTDIR": os.getcwd()}
    shell = subprocess.Popen(
        [program("zsh"), "-d", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
    )
    os.close(theirs)
    os.write(ours, f"{' '.join(words)}\t\x18".encode())
    told = os.open("line", os.O_RDONLY | os.O_NONBLOCK)
    assert select.select([told], [], [], 60)[0], "zsh told nothing"
    os.set_blocking(told, True)
    line = os.read(told, 4096).decode()
    os.close(told)
    os.close(ours)
    shell.wait()
    os.unlink("line")
    return [line.split()[-1]]


@pytest.mark.parametrize("complete", [by_bash, by_fish, by_zsh])
def test_shells_complete_commands_options_formats_and_steps(complete: Callable[..., list[str]], folder: Path) -> None:
    assert complete("treaty", "insp") == ["inspect"]
    assert complete("treaty", "inspect", "--st") == ["--step"]
    assert complete("treaty", "convert", "a", "b", "--to", "sa") == ["safetensors"]
    assert complete("treaty", "inspect", "run", "--step", "8") == ["80"]


@pytest.mark.parametrize("complete", [by_fish, by_zsh])
def test_shells_complete_paths(complete: Callable[..., list[str]], folder: Path) -> None:
    """Bash is told that a path is wanted, and completes it where readline asks."""
    assert complete("treaty", "inspect", "other.") == ["other.msgpack"]


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_completing_imports_no_jax(command: str | None) -> None:
    """A key is not to be waited for: of all commands at once, in one interpreter each would hide the other's imports."""
    words = "treaty " if command is None else f"treaty {command} --"
    env = {
        **os.environ,
        "_TREATY_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - (command is not None)),
    }
    code = (
        "import sys; from treaty.cli import main\n"
        "try: main(prog_name='treaty')\n"
        "finally: print(*{'jax', 'tensorstore', 'rich'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert ("inspect" if command is None else "--help") in done.stdout
    assert done.stderr.strip() == ""
