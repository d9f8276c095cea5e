"""Let pods and troubles come for a while, then see that nothing is left and nothing has grown.

`python -m tests.cluster.soak --k8s 1.37 --minutes 10 --seed 1`. First pods come and go and the
agent stays the same process, then agent and kubelet are killed, replaced and restarted too, then
it is calm again, and after each part everything is deleted. The exit status is 1 if anything was
found. By hand: it takes as long as it is told, and its figures need a machine of their own.
"""

import argparse
import os
import random
import sys
from collections.abc import Sequence

from tests.bench.figures import show, show_machine
from tests.cluster.components import Options
from tests.cluster.go_modules import minors
from tests.cluster.places import state_base
from tests.cluster.scenes.driver import running_driver
from tests.cluster.slots import slot
from tests.cluster.soak.soak import Soak
from tests.cluster.up import bring_up, build_and_find


def main(words: Sequence[str] | None = None) -> int:
    """Run one soak."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.soak", description=__doc__)
    parser.add_argument("--k8s", choices=minors(), default=minors()[-1])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(words)
    build_and_find(chosen.k8s)
    show_machine()
    with (
        slot(state_base(os.environ)) as folder,
        bring_up(folder / "cluster", Options(minor=chosen.k8s)) as cluster,
        running_driver(cluster) as driver,
        cluster.client() as client,
    ):
        soak = Soak(driver, client, random.Random(chosen.seed))  # noqa: S311 - no secrets here
        soak.run(chosen.minutes * 60)
    for problem in soak.problems:
        sys.stdout.write(f"soak PROBLEM {problem}\n")
    show("soak", "problems", len(soak.problems))
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
