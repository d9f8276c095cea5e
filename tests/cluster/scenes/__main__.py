"""Play the scenes of a Kubernetes minor: `python -m tests.cluster.scenes --k8s 1.36 [--smoke]`.

Each column of docs/scenes.md has a cluster of its own, for gates are switched when it comes up.
What fails is tried a second time: dozens of processes share two cores here, and one slow answer
among thousands would else hide what all other scenes say. Both tries are printed, and
the run says which scenes needed the second.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence

from tests.cluster.cluster import REPOSITORY
from tests.cluster.go_modules import minors
from tests.cluster.scenes.table import gates_of, read_table

_SCENES = "tests/cluster/scenes"
_INSTALLING = "tests/cluster/installing"


def commands(minor: str, *, smoke: bool) -> list[list[str]]:
    """Return the pytest commands: the cluster's own tests come with the default gates."""
    pytest = [sys.executable, "-m", "pytest", "-m", "cluster and not bench"]
    pytest += ["--require-cluster", "--k8s", minor, "--reruns", "1"]
    found = []
    if not smoke:
        found.append([*pytest, "tests/cluster", f"--ignore={_SCENES}", f"--ignore={_INSTALLING}"])
    for column in read_table().columns_of(minor):
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in gates_of(column).items())
        switched = ["--gates", gates] if gates else []
        set_ = ["--smoke"] if smoke else []
        found.append([*pytest, *switched, *set_, "--all-scenes", _SCENES])
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Run all of them; the exit status is 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.scenes", description=__doc__)
    parser.add_argument("--k8s", choices=minors(), default=minors()[-1])
    parser.add_argument("--smoke", action="store_true", help="play the smoke set alone")
    arguments = parser.parse_args(words)
    failed = 0
    for command in commands(arguments.k8s, smoke=arguments.smoke):
        sys.stdout.write(f"{' '.join(command[2:])}\n")
        sys.stdout.flush()
        failed |= subprocess.run(command, cwd=REPOSITORY, check=False).returncode  # noqa: S603
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
