"""An extender that computes everything anew: `python -m tests.bench.extender.reference PORT N K`.

It is what a plain implementation does, with no cache but the objects themselves: for each question
it goes through all pods to learn what is used, and then through all nodes that were named. It
stands in the same run for what the real one is compared with; it has no watches and does not bind.
"""

import asyncio
import json
import sys
from typing import Any, Final

from kube.quantity import parse
from tests.bench.extender import cluster
from tests.bench.extender.cluster import GPUS, SLOTS, TOTAL_MIB, Size
from tests.bench.extender.serving import Handler, serve

_FULL_CORES: Final = 100


class Reference:
    """Answers `/filter` for a cluster of one size."""

    def __init__(self, size: Size) -> None:
        self._nodes = {
            cluster.node_name(number): [cluster.uuid(number, gpu) for gpu in range(GPUS)]
            for number in range(size.nodes)
        }
        self._pods = []
        for number in range(size.pods):
            has = cluster.share(number, size)
            device = cluster.uuid(has.node, has.gpu)
            self._pods.append((device, has.memory_mib, has.cores))

    def answer(self, target: str, body: bytes) -> tuple[int, bytes]:
        """Answer one question."""
        if target != "/filter":
            return 404, b""
        said = json.loads(body)
        limits = said["Pod"]["spec"]["containers"][0]["resources"]["limits"]
        memory_mib = parse(limits["nvidia.com/gpumem"]).value()
        cores = parse(limits["nvidia.com/gpucores"]).value()
        names = said["NodeNames"]
        if names is None:
            names = [each["metadata"]["name"] for each in said["Nodes"]["items"]]
        best, failed = self._best(names, memory_mib, cores)
        kept = [best] if best else None
        answer: dict[str, Any] = {"Nodes": None, "NodeNames": kept, "FailedNodes": failed}
        return 200, json.dumps({**answer, "Error": ""}).encode()

    def _best(
        self, names: list[str], memory_mib: int, cores: int
    ) -> tuple[str | None, dict[str, str] | None]:
        used = self._used()
        best, best_score, failed = None, -1.0, {}
        for name in names:
            devices = [used[device] for device in self._nodes[name]]
            reasons = [_refusal(each, memory_mib, cores) for each in devices]
            if all(reasons):
                count = len(reasons)
                tokens = sorted({each for each in reasons if each})
                failed[name] = ", ".join(f"{reasons.count(each)}/{count} {each}" for each in tokens)
                continue
            score = _score(devices)
            if score > best_score:
                best, best_score = name, score
        return best, failed if best is None else None

    def _used(self) -> dict[str, list[int]]:
        used = {device: [0, 0, 0] for devices in self._nodes.values() for device in devices}
        for device, memory_mib, cores in self._pods:
            taken = used[device]
            taken[0] += 1
            taken[1] += memory_mib
            taken[2] += cores
        return used


def _refusal(taken: list[int], memory_mib: int, cores: int) -> str:
    if taken[0] >= SLOTS:
        return "CardTimeSlicingExhausted"
    if TOTAL_MIB - taken[1] < memory_mib:
        return "CardInsufficientMemory"
    return "CardInsufficientCore" if _FULL_CORES - taken[2] < cores else ""


def _score(devices: list[list[int]]) -> float:
    score = 0.0
    for kind, total in enumerate((SLOTS, TOTAL_MIB, _FULL_CORES)):
        score += 10 * sum(taken[kind] for taken in devices) / (total * len(devices))
    return score


async def _run(port: int, size: Size) -> None:
    handler: Handler = Reference(size).answer
    await serve(port, handler)


if __name__ == "__main__":
    _port, _nodes, _pods = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    asyncio.run(_run(_port, Size(nodes=_nodes, pods_per_gpu=_pods)))
