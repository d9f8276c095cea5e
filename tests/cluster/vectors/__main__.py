"""Record what a real scheduler does with the cases of device allocation.

`python -m tests.cluster.vectors record --k8s 1.37 [NAME...]` plays the named cases, or all of them,
on a control plane of that release and writes the answers into their files.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import groupby

from tests.cluster.go_modules import minors
from tests.cluster.places import state_base
from tests.cluster.slots import slot
from tests.cluster.up import build_and_find, say_on_stderr
from tests.cluster.vectors.plane import control_plane
from tests.cluster.vectors.player import Player
from tests.sim.scheduler.vector import Json, Vector, read_all


def main(words: Sequence[str] | None = None) -> int:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.vectors", description=__doc__)
    commands = parser.add_subparsers(required=True)
    record = commands.add_parser("record", help="play cases and keep the answers")
    record.add_argument("--k8s", choices=minors(), default=minors()[-1])
    record.add_argument("names", nargs="*", help="cases; none for all")
    chosen = parser.parse_args(words)
    build_and_find(chosen.k8s)
    vectors = [each for each in read_all(chosen.names) if each.is_for(chosen.k8s)]
    with slot(state_base(os.environ)) as folder:
        for number, group in enumerate(_by_gates(vectors)):
            with control_plane(folder / f"plane-{number}", chosen.k8s, group[0].gates) as client:
                _record(Player(client, chosen.k8s), chosen.k8s, group)
    return 0


def _by_gates(vectors: Iterable[Vector]) -> list[list[Vector]]:
    def gates(vector: Vector) -> str:
        return json.dumps(vector.gates, sort_keys=True)

    return [list(group) for _, group in groupby(sorted(vectors, key=gates), key=gates)]


def _record(player: Player, minor: str, vectors: Sequence[Vector]) -> None:
    started_s = time.monotonic()
    for vector in vectors:
        answer = player.play(vector)
        say_on_stderr(f"{vector.name}: {_summary(answer)}")
        data = vector.data
        recorded = {**(data.get("recorded") or {}), minor: answer}
        data["recorded"] = dict(sorted(recorded.items()))
        vector.path.write_text(json.dumps(data, indent=1) + "\n")
    spent_s = time.monotonic() - started_s
    say_on_stderr(f"{len(vectors)} cases in {spent_s:.0f} s")


def _summary(answer: Json) -> str:
    if "any_of" in answer:
        return f"any of {len(answer['any_of'])} answers"
    if "refused" in answer:
        return f"{answer['refused']} {answer['message']}"
    return f"on {answer['node']}"


if __name__ == "__main__":
    sys.exit(main())
