"""Record what a running real cluster tells in the scenes: `python -m tests.api_behaviour`.

It takes the cluster that `python -m tests.cluster up` has made.
"""

import argparse
import sys
from collections.abc import Sequence

from tests.api_behaviour import recorded_answers
from tests.api_behaviour.kubectl import SCENES as KUBECTL_SCENES
from tests.api_behaviour.suite import SCENES, play
from tests.cluster.cluster import RealCluster
from tests.cluster.places import default_state


def main() -> int:
    """Play the scenes and write the file of the cluster's minor."""
    parser = argparse.ArgumentParser(prog="python -m tests.api_behaviour", description=__doc__)
    parser.add_argument("scenes", nargs="*", help="record these again and keep the others")
    asked = parser.parse_args().scenes
    cluster = RealCluster.attach(default_state())
    minor = cluster.options.minor

    def kubectl(arguments: Sequence[str], stdin: str | None) -> tuple[int, str, str]:
        command = (cluster.assets.path("kubectl"), *arguments)
        done = cluster.run_in(*command, stdin=stdin, check=False)
        return done.returncode, done.stdout, done.stderr

    known = SCENES | KUBECTL_SCENES
    kept = recorded_answers.read(minor) if asked and minor in recorded_answers.minors() else {}
    told = {name: scene for name, scene in kept.items() if name in known}
    with cluster.client() as client:
        for name in asked or known:
            sys.stderr.write(f"{name}\n")
            told[name] = play(name, client, kubectl)
        recorded_answers.write(minor, client.server_version(), told)
    cluster.let_go()
    return 0


if __name__ == "__main__":
    sys.exit(main())
