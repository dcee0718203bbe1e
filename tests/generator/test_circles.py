"""Schema modules that use each other: what each generates imports the other's, whichever comes first.

Mypy reads one such pair in tests/generator/test_any_name.py.
"""

import subprocess
from pathlib import Path

import pytest

from tests import forked

IMPORTS = """\
from jax import Array
from jaxtyping import Float32
from typing import Annotated
from treaty.schema import Dims, state
"""
NODE = """
@state
class Node:
    w: Float32[Array, "d"]
    edges: list[Annotated["{edge}", Dims(...)]]
"""
EDGE = """
@state
class Edge:
    to: "Annotated[{node}, Dims(...)] | None"
    v: Float32[Array, "d"]
"""
# How two modules come to know each other in Python, each as (node.py, edge.py).
CIRCLES = {
    "modules": (
        f"import net.edge\n{IMPORTS}{NODE.format(edge='net.edge.Edge')}",
        f"import net.node\n{IMPORTS}{EDGE.format(node='net.node.Node')}",
    ),
    "late import": (
        f"{IMPORTS}{NODE.format(edge='Edge')}\nfrom net.edge import Edge\n",
        f"{IMPORTS}from net.node import Node\n{EDGE.format(node='Node')}",
    ),
    "future annotations": (
        f"from __future__ import annotations\nimport net.edge as e\n{IMPORTS}{NODE.format(edge='e.Edge')}",
        f"from __future__ import annotations\nimport net.node as n\n{IMPORTS}{EDGE.format(node='n.Node')}",
    ),
    "instance while importing": (
        f"import net.edge\n{IMPORTS}{NODE.format(edge='net.edge.Edge')}",
        f"import net.node as n\n{IMPORTS}\nFIRST = n.Node(w=3, edges=[]) if hasattr(n, 'Node') else None\n"
        + EDGE.format(node="n.Node"),
    ),
}
USE = """\
import importlib, sys
first, second = sys.argv[1:]
a, b = importlib.import_module(first), importlib.import_module(second)
from net.edge import Edge
from net.node import Node
import jax, numpy as np
from treaty.runtime import from_state_dict, to_state_dict, StateMismatchError

def node(size, depth):
    w = np.ones(size, np.float32)
    return Node(w=w, edges=[Edge(to=node(size, depth - 1), v=w)] if depth else [])

def take(make):
    value = make()
    assert len(jax.tree.leaves(value)) > 1, jax.tree.leaves(value)
    saved = to_state_dict(value)
    assert to_state_dict(from_state_dict(type(value), saved)).keys() == saved.keys()

take(lambda: node(2, 3))
take(lambda: node(2, 1).edges[0])
try:
    from_state_dict(Node, to_state_dict(Node(w=np.ones(2, np.float32), edges=[Edge(to=node(3, 0), v=np.ones(2, np.float32))])))
except StateMismatchError as error:
    assert "d=2" in str(error), error
    print("done")
"""


def generate(root: Path, *modules: str) -> "subprocess.CompletedProcess[str]":
    return forked.run("treaty", "generate", *modules, cwd=root)


def write(root: Path, node: str, edge: str) -> None:
    (root / "net").mkdir(parents=True)
    (root / "net" / "__init__.py").touch()
    (root / "net" / "node.py").write_text(node)
    (root / "net" / "edge.py").write_text(edge)


@pytest.mark.parametrize("circle", CIRCLES)
def test_modules_that_use_each_other(circle: str, tmp_path: Path) -> None:
    write(tmp_path, *CIRCLES[circle])
    done = generate(tmp_path, "net.node")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "wrote net/node_treaty.py\nwrote net/edge_treaty.py\n"
    orders = {
        "modules": [("net.node", "net.edge"), ("net.edge_treaty", "net.node")],
        "late import": [("net.node", "net.edge")],  # Python itself refuses the other order
    }
    for order in orders.get(circle, [("net.edge", "net.node")]):
        used = forked.run("python", "-c", USE, *order, cwd=tmp_path)
        assert used.stdout == "done\n", (order, used.stderr)


def test_names_for_type_checkers_alone_are_refused_with_what_to_write(tmp_path: Path) -> None:
    node = (
        f"import typing\nif typing.TYPE_CHECKING:\n    from net.edge import Edge\n{IMPORTS}{NODE.format(edge='Edge')}"
    )
    write(tmp_path, node, CIRCLES["late import"][1])
    done = generate(tmp_path, "net.node")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: net/node.py:9: Node.edges: cannot resolve list[")
    assert ": name 'Edge' is not defined; " in line
    assert line.endswith('where two modules need each other, write `import pkg.other` and "pkg.other.Name"')
