"""From a script without Treaty to one with it: the pages of docs/ say how, and are replayed here, command by command."""

import difflib
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.architecture.packages import ROOT
from tests.long import IS_LONG
from tests.test_docs import EXCERPT, blocks, patched

KINDS = ("nnx", "linen", "equinox", "dicts")
# Each takes ten seconds or more. The suite has one, `make onramp` and `make test-long` all.
REPLAYED = KINDS if IS_LONG else ("dicts",)
LAST = 20  # the step that the pages train to, from the middle on with Treaty
SCRIPTS = ROOT / "examples" / "onramp"


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, "Replay"]:
    folder = tmp_path_factory.mktemp("onramp")
    replays = {kind: Replay(kind, folder / kind) for kind in REPLAYED}
    env = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache" / "docs"),
        # The same functions are compiled by many processes: by the first for all.
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_multi_thread_eigen=false",
    }
    for replay in replays.values():
        replay.results = [done(job, env) for job in replay.jobs]
    return replays


def done(job: dict[str, Any], env: dict[str, str]) -> dict[str, Any]:
    if "write" in job:
        Path(job["write"]).parent.mkdir(parents=True, exist_ok=True)
        Path(job["write"]).write_text(job["text"])
        return {}
    if "copy" in job:
        shutil.copytree(job["copy"], job["to"])
        return {}
    line = f"step {job['kill']} " if job["kill"] else ""  # of its output, after which it is killed
    ended = forked.run(*job["command"].split(), cwd=Path(job["cwd"]), env=env, kill=line)
    return {"said": ended.stdout + ended.stderr, "status": ended.returncode}


class Replay:
    """What a page says, as jobs: in `calm` all of it; in `rough` its last steps, with a kill; in `plain` the old script alone."""

    results: list[dict[str, Any]]

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.calm, self.rough, self.plain = kind, folder / "calm", folder / "rough", folder / "plain"
        self.jobs: list[dict[str, Any]] = []
        self.expected: dict[int, str] = {}  # what the page says that a job prints
        self.old = (SCRIPTS / kind / "before.py").read_text()
        self.new = ""
        self.excerpts: list[str] = []
        self._write("train.py", self.old)
        for language, text in blocks(ROOT / "docs" / f"{kind}.md"):
            self._block(language, text)
        self._compare(f"run/step-{LAST // 2:06}", f"run/step-{LAST:06}")

    def _block(self, language: str, text: str) -> None:
        if language == "diff":
            self.new = self.old
            for change in text.removeprefix("# train.py\n").split("...\n"):
                self.new = patched(self.new, change)
            self._write("train.py", self.new)
        elif language == "toml":
            name, _, content = text.partition("\n")
            self._write(name.removeprefix("# "), content)
        elif language == "console":
            for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, flags=re.MULTILINE):
                self.expected[len(self.jobs)] = output
                self._run(self.calm, command)
        elif language == "sh":
            self._train([line.partition("#")[0].strip() for line in text.splitlines()])
        elif language == "python":
            self.excerpts.append(EXCERPT.sub("", text, count=1))

    def _train(self, commands: list[str]) -> None:
        if not self.new:
            self._run(self.calm, *commands)
            self._copy(self.plain)
            self._run(self.plain, f"python train.py run --steps {LAST}")
        elif len(commands) == 1:
            self._copy(self.rough)
            self._run(self.calm, *commands)
        else:
            self._run(self.rough, commands[0], kill=random.randint(LAST // 2 + 1, LAST - 1))
            self._run(self.rough, *commands[1:])

    def _compare(self, middle: str, last: str) -> None:
        """What the old script alone came to, converted as the page converts the old checkpoint, with what came with Treaty."""
        convert = [job["command"] for job in self.jobs if job.get("command", "").startswith("treaty convert")]
        old = f"../plain/{last}.msgpack"
        for command in convert:
            moved = command.replace(f"{middle}.msgpack", "plain.msgpack").replace(f" {middle} ", f" ../plain/{last} ")
            self._run(self.calm, moved)
            old = "plain.msgpack"
        self._run(self.calm, f"treaty diff {old} {last}.msgpack")

    def _run(self, folder: Path, *commands: str, kill: int = 0) -> None:
        self.jobs += [{"cwd": str(folder), "command": command, "kill": kill} for command in commands]

    def _write(self, name: str, text: str) -> None:
        self.jobs.append({"write": str(self.calm / name), "text": text})

    def _copy(self, folder: Path) -> None:
        self.jobs.append({"copy": str(self.calm), "to": str(folder)})

    def steps(self, folder: Path) -> list[list[int]]:
        """The steps that each run in a folder made."""
        runs = [(job, result) for job, result in zip(self.jobs, self.results, strict=True) if "command" in job]
        mine = [result["said"] for job, result in runs if job["cwd"] == str(folder) and job["command"][:6] == "python"]
        return [[int(step) for step in re.findall(r"^step (\d+) loss \d+\.\d+$", said, re.MULTILINE)] for said in mine]


@pytest.mark.parametrize("kind", KINDS)
def test_the_script_with_treaty_is_what_the_page_makes_of_the_other(kind: str) -> None:
    before, after = ((SCRIPTS / kind / f"{name}.py").read_text() for name in ("before", "after"))
    assert Replay(kind, Path("unused")).new == after
    changed = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]
    assert len(changed) <= 15
    assert f"two commands and {len(changed)} changed lines" in (ROOT / "docs" / f"{kind}.md").read_text()
    assert "treaty" not in before


@pytest.mark.parametrize("kind", REPLAYED)
def test_the_page_does_what_it_says(kind: str, replayed: dict[str, Replay]) -> None:
    replay = replayed[kind]
    for number, (job, result) in enumerate(zip(replay.jobs, replay.results, strict=True)):
        if "command" in job:
            assert result["status"] == (-9 if job["kill"] else 0), f"{job['command']}\n{result['said']}"
            assert result["said"] == replay.expected.get(number, result["said"])
    assert all(excerpt in (replay.calm / "state.py").read_text() for excerpt in replay.excerpts)


@pytest.mark.parametrize("kind", REPLAYED)
def test_a_run_that_is_killed_ends_with_the_same_bits(kind: str, replayed: dict[str, Replay]) -> None:
    replay = replayed[kind]
    killed, resumed = replay.steps(replay.rough)
    assert LAST // 2 < killed[-1] < LAST
    assert killed[0] == LAST // 2 + 1
    assert resumed[-1] == LAST
    assert resumed[0] <= killed[-1] + 1
    calm, rough = (folder / "run" / f"step-{LAST:06}.msgpack" for folder in (replay.calm, replay.rough))
    assert calm.read_bytes() == rough.read_bytes()


@pytest.mark.parametrize("kind", REPLAYED)
def test_the_old_checkpoint_goes_on_as_it_would_have(kind: str, replayed: dict[str, Replay]) -> None:
    replay = replayed[kind]
    assert replay.steps(replay.calm) == [[*range(1, LAST // 2 + 1)], [*range(LAST // 2 + 1, LAST + 1)]]
    assert replay.steps(replay.plain) == [[*range(LAST // 2 + 1, LAST + 1)]]
    assert replay.jobs[-1]["command"].startswith("treaty diff")  # whose exit status is 1 where a bit differs
    assert replay.results[-1]["status"] == 0, replay.results[-1]["said"]
