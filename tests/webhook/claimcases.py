"""Translated claims with the GPUs of a node, to be tried on simulated and real schedulers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu.model import Gpu
from kube.objects import JsonObject
from tests.sim.scheduler.vector import Vector
from tests.webhook.translating import (
    NODE,
    a_container,
    a_gpu,
    a_mig_gpu,
    a_pod,
    a_slice,
    an_exclusive_gpu,
    classes,
    only_spec,
    translated,
    uuid,
)
from webhook.facts import ClusterFacts

FACTS = ClusterFacts(
    gpus_by_memory_mib={23028: 1, 81920: 1},
    gpus_by_shares={10: 2},
    mig_by_memory_mib={9856: 1, 20096: 1, 40448: 1},
    fill_levels=True,
)
OLD = ClusterFacts(gpus_by_memory_mib={23028: 1, 81920: 1}, counts_are_distinct=False)
BEST_EFFORT = {"hami.io/numa-alignment": "best-effort"}
BIND = {"nvidia.com/numa-bind": "true"}
CLOSE = {"hami.io/gpu-scheduler-policy": "topology-aware,numa"}
MIG = {"nvidia.com/vgpu-mode": "mig"}


def _card(number: int, root: str | None, numa: int | None) -> Gpu:
    return a_gpu(number, 23028 if number % 2 else 81920, pcie_root=root, numa_node=numa)


A10 = a_gpu(0, 23028)
A100 = a_gpu(1, 81920, name="NVIDIA A100-SXM4-80GB", numa_node=1)
TWO = a_slice(A10, A100)
THREE = a_slice(A10, A100, a_gpu(2, numa_node=1))
LONE = (_card(0, "a", 0), _card(1, "b", 1))
OF_ROOT = tuple(_card(number, "c", 2) for number in (5, 6, 7))
OF_NODE = tuple(_card(number, str(number), 2) for number in (2, 3, 4))
UNKNOWN = (_card(8, None, None), _card(9, None, None))
LEVELS = a_slice(a_gpu(0), a_gpu(1), a_gpu(2), fill_levels={0: 1, 1: 3, 2: 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCase:
    """One request on one node; *devices* are numbers of GPUs, `None` where it has to wait."""

    name: str
    amounts: Mapping[str, int | str]
    devices: tuple[int, ...] | None
    node: JsonObject = field(default_factory=lambda: TWO)
    notes: Mapping[str, str] = field(default_factory=dict)
    facts: ClusterFacts = FACTS

    @property
    def spec(self) -> JsonObject:
        """The translated claim."""
        return only_spec(
            translated(
                a_pod(a_container("main", **self.amounts), annotations=self.notes), self.facts
            )
        )

    def vector(self) -> Vector:
        """Return the case as one that can be played on a real scheduler."""
        return Vector(
            {
                "name": self.name.replace(" ", "-"),
                "node": {"metadata": {"name": NODE}},
                "slices": [_typed(self.node, "ResourceSlice")],
                "classes": list(classes().values()),
                "state": {},
                "claims": [_typed(_claim(self.spec), "ResourceClaim")],
            }
        )


def _claim(spec: JsonObject) -> JsonObject:
    return {"metadata": {"name": "claim", "namespace": "default"}, "spec": spec}


def _typed(item: JsonObject, kind: str) -> JsonObject:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, **item}


def _case(
    name: str,
    amounts: Mapping[str, int | str],
    *devices: int,
    waits: bool = False,
    **more: Any,
) -> ClaimCase:
    return ClaimCase(name=name, amounts=amounts, devices=None if waits else devices, **more)


HALVES = {"gpu": 3, "percent": 50}
PAIR = {"gpu": 2, "gpumem": 1000}
SMALL = {"gpu": 1, "gpumem": 1000}

CASES = (
    _case("half of each", {"gpu": 2, "percent": 50}, 0, 1),
    _case("two", PAIR, 0, 1),
    _case("two on old", PAIR, 0, 1, facts=OLD),
    _case("three of two", {"gpu": 3, "gpumem": 1000}, waits=True),
    _case("three of two on old", {"gpu": 3, "gpumem": 1000}, waits=True, facts=OLD),
    _case("whole", {"gpu": 1}, 0),
    _case("whole of its own", {"gpu": 2}, 0, 1, node=a_slice(an_exclusive_gpu(0), A100)),
    _case("bound to a node", PAIR, 1, 2, node=THREE, notes=BIND),
    _case("bound to a node that is not", PAIR, waits=True, notes=BIND),
    _case("best effort", PAIR, 1, 2, node=THREE, notes=BEST_EFFORT),
    _case("best effort in vain", PAIR, 0, 1, notes=BEST_EFFORT),
    _case("best effort on old", PAIR, 1, 2, node=THREE, notes=BEST_EFFORT, facts=OLD),
    _case("best effort in vain on old", PAIR, 0, 1, notes=BEST_EFFORT, facts=OLD),
    _case("one root", HALVES, 5, 7, 6, node=a_slice(*LONE, *OF_NODE, *OF_ROOT), notes=CLOSE),
    _case(
        "one root on old",
        HALVES,
        *(5, 7, 6),
        node=a_slice(*LONE, *OF_NODE, *OF_ROOT),
        notes=CLOSE,
        facts=OLD,
    ),
    _case("one node", HALVES, 3, 2, 4, node=a_slice(*LONE, *OF_NODE), notes=CLOSE),
    _case("anywhere", HALVES, 1, 9, 0, node=a_slice(*LONE, *UNKNOWN), notes=CLOSE),
    _case("nowhere", HALVES, waits=True, node=a_slice(*LONE), notes=CLOSE),
    _case("binpack", SMALL, 1, node=LEVELS, notes={"hami.io/gpu-scheduler-policy": "binpack"}),
    _case("spread", SMALL, 2, node=LEVELS, notes={"hami.io/node-scheduler-policy": "spread"}),
    _case("binpack unknown", SMALL, 0, notes={"hami.io/gpu-scheduler-policy": "binpack"}),
    _case("mutex", SMALL, 0, notes={"hami.io/gpu-scheduler-policy": "mutex"}),
    _case(
        "mutex of another number",
        SMALL,
        waits=True,
        node=a_slice(A10, shares=5),
        notes={"hami.io/gpu-scheduler-policy": "mutex"},
    ),
    _case(
        "types",
        SMALL,
        3,
        node=a_slice(A10, A100, a_gpu(3, name="Tesla V100-SXM2-16GB")),
        notes={
            "nvidia.com/use-gputype": "nvidia-tesla,a100",
            "nvidia.com/nouse-gputype": 'A10,l4" || true',
        },
    ),
    _case(
        "uuids",
        SMALL,
        1,
        notes={"nvidia.com/use-gpuuuid": f"{uuid(1)},", "nvidia.com/nouse-gpuuuid": uuid(0)},
    ),
    _case(
        "mig of a uuid",
        SMALL,
        2,
        node=a_slice(a_mig_gpu(1, 9856), a_mig_gpu(2, 9856)),
        notes={**MIG, "nvidia.com/use-gpuuuid": uuid(2)},
    ),
    _case("mig too small", SMALL, waits=True, node=a_slice(a_gpu(0), a_mig_gpu(1, 900)), notes=MIG),
    _case(
        "mig beside shares",
        PAIR,
        *(1, 1),
        node=a_slice(a_gpu(0), a_mig_gpu(1, 9856, 9856)),
        notes={"nvidia.com/vgpu-mode": "hami-core,mig"},
    ),
)
