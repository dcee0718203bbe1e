"""What each process does to write one checkpoint together; see write.py."""

import sys
from pathlib import Path

from attrs import evolve

from tests.golden.state_v1 import everything_and_a_huge_int
from tests.golden.write import spread, write_fine

whole = everything_and_a_huge_int()
state = spread(whole)
state = evolve(state, run=evolve(state.run, values=whole.run.values))  # where jax has sorted the keys of dicts
assert not state.run.params.embed.is_fully_addressable
assert not state.run.params.embed.is_fully_replicated
write_fine(Path(sys.argv[5]), state)
