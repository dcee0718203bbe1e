"""Real JAX processes on this machine: one coordinator, CPU devices, collectives over 127.0.0.1."""

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
START = """
import sys
import jax
address = "127.0.0.1:" + sys.argv[1]
jax.distributed.initialize(address, int(sys.argv[3]), int(sys.argv[2]), coordinator_bind_address=address)
exec(compile(open(sys.argv[4]).read(), sys.argv[4], "exec"))
"""


def run_processes(script: Path, *args: str, count: int = 2, devices: int = 2) -> None:
    """Run a script in `count` processes of one JAX cluster; it asserts for itself, and any failure fails the caller."""
    done = complete([sys.executable, "-c", START], str(script), *args, count=count, devices=devices)
    failed = [process.stdout + process.stderr for process in done if process.returncode != 0]
    assert not failed, "\n".join(failed)


def complete(
    command: list[str], *args: str, count: int = 2, devices: int = 2
) -> list[subprocess.CompletedProcess[str]]:
    """Run a command in `count` processes, with port, index, count and then `args`, and wait for all of them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
    }
    running = [
        subprocess.Popen(
            [*command, str(port), str(index), str(count), *args],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(count)
    ]
    try:
        outputs = [process.communicate(timeout=120) for process in running]
    finally:
        for process in running:
            process.kill()
    pairs = zip(running, outputs, strict=True)
    return [subprocess.CompletedProcess(one.args, one.returncode, *output) for one, output in pairs]
