"""An array with shards in another process cannot go into one file; the error says so."""

import socket
import subprocess
import sys

CODE = """
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
jax.distributed.initialize("127.0.0.1:" + sys.argv[2], 2, int(sys.argv[1]), coordinator_bind_address="127.0.0.1:" + sys.argv[2])
from treaty.runtime import serialization
sharding = NamedSharding(Mesh(jax.devices(), "x"), PartitionSpec("x"))
array = jax.make_array_from_callback((len(jax.devices()),), sharding, lambda index: np.zeros(1, np.float32))
try:
    serialization.to_bytes({"w": array})
except ValueError as error:
    print(error)
print(serialization.validate_serializable({"w": array}))
"""


def test_two_processes() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-c", CODE]
    processes = [
        subprocess.Popen([*command, str(index), port], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for index in range(2)
    ]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        refused, validation = out.splitlines()[-2:]
        assert refused.startswith("expected an array whose shards are all on this host, got float32[")
        assert validation == "(False, ['Non-addressable array at $.w'])"
