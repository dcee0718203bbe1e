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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
    }
    command = [sys.executable, "-c", START, str(port)]
    running = [
        subprocess.Popen(
            [*command, str(index), str(count), str(script), *args],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(count)
    ]
    outputs = []
    try:
        outputs = [process.communicate(timeout=120)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    failed = [output for process, output in zip(running, outputs, strict=True) if process.returncode != 0]
    assert not failed, "\n".join(failed)
