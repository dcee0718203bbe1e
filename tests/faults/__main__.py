"""The campaign of faults, at every moment, again and again with other states: `python -m tests.faults --minutes 30`.

Without minutes: once. Other arguments are pytest's. Ends at the first round that fails, with the number that repeats it.
"""

import argparse
import os
import subprocess
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--round", type=int, default=0, help="the first round; each has states of its own")
    options, given = parser.parse_known_args()
    end = time.monotonic() + 60 * options.minutes
    number = options.round
    while True:
        env = {**os.environ, "TREATY_FAULTS": "every", "TREATY_FAULTS_ROUND": str(number)}
        command = [sys.executable, "-m", "pytest", "tests/faults", *given]
        if code := subprocess.run(command, env=env, check=False).returncode:
            print(f"round {number} failed; repeat it with --round {number}", flush=True)
            sys.exit(code)
        number += 1
        if time.monotonic() >= end:
            break
    print(f"{number - options.round} rounds without a fault")


if __name__ == "__main__":
    main()
