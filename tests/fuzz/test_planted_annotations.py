"""Readers of HAMi's annotations that are broken on purpose, and are found."""

from dataclasses import replace

import pytest

from hami.annotations import (
    Backend,
    PairScores,
    Undecodable,
    decode_mig_allocations,
    decode_pod_devices,
    decode_register,
    decode_scores,
)
from hami.devices import MigAllocation, PodDevice, Slots
from hami.handshake import Health
from hami.nodelock import Decision, Verdict
from tests.fuzz import nodestamps
from tests.fuzz.nodestamps import Handshakes, NodeLocks, Scores
from tests.fuzz.podlists import MigLists, PodLists
from tests.fuzz.registers import Registered, Registers
from tests.fuzz.running import Limits, Target, run


def first_device(backend: Backend, text: str) -> Registered:
    """Forget the others."""
    found = decode_register(backend, text, node_name="node-1")
    return found if isinstance(found, Undecodable) else found[:1]


def larger(backend: Backend, text: str) -> Registered:
    """Read memory that is not there."""
    found = decode_register(backend, text, node_name="node-1")
    if isinstance(found, Undecodable):
        return found
    return tuple(replace(each, memory_mib=each.memory_mib + 1) for each in found)


def nameless(backend: Backend, text: str) -> Registered:
    """Read only what has an older form."""
    if text.startswith("["):
        return Undecodable("is too new")
    return decode_register(backend, text, node_name="node-1")


def without_empty_places(text: str, containers: int | None) -> Slots | Undecodable:
    """Move the devices of one container to another."""
    found = decode_pod_devices(text, containers)
    return found if isinstance(found, Undecodable) else tuple(filter(None, found))


def skipping(text: str, containers: int | None) -> Slots | Undecodable:
    """Take what cannot be read for nothing."""
    found = decode_pod_devices(text, containers)
    return () if isinstance(found, Undecodable) else found


def bare(text: str, _containers: int | None) -> Slots | Undecodable:
    """Fail as Python does."""
    uuid, kind, memory, cores = text.removesuffix(":;").split(",")
    return ((PodDevice(uuid=uuid, type=kind, memory_mib=int(memory), cores=int(cores)),),)


def unmade(text: str) -> tuple[MigAllocation, ...] | Undecodable:
    """Forget one of the ids."""
    found = decode_mig_allocations(text)
    if isinstance(found, Undecodable):
        return found
    return tuple(replace(each, gpu_instance_id=None) for each in found)


def impatient(text: str, allocatable: int) -> Health:
    """Take every question for an old one."""
    found = nodestamps._health(text, allocatable)
    return found if found.needs_update else replace(found, healthy=False)


def greedy(value: str, is_held: bool | None) -> Decision:  # noqa: FBT001 - as the fuzzer calls it
    """Break what somebody holds."""
    found = nodestamps._decide(value, is_held)
    return replace(found, verdict=Verdict.BREAK) if found.verdict is Verdict.WAIT else found


def one_sided(text: str) -> PairScores | Undecodable:
    """Lose the last GPU."""
    found = decode_scores(text)
    return found if isinstance(found, Undecodable) else dict(list(found.items())[:-1])


PLANTED: list[tuple[Target, str]] = [
    (Registers(first_device), "other devices"),
    (Registers(larger), "other devices"),
    (Registers(nameless), "a plugin's own is refused"),
    (PodLists(without_empty_places), "other devices"),
    (PodLists(skipping), "other devices"),
    (PodLists(bare), "ValueError"),
    (MigLists(unmade), "some of the ids"),
    (Handshakes(impatient), "another health"),
    (NodeLocks(greedy), "a lock is broken that is held"),
    (Scores(one_sided), "other scores"),
]


@pytest.mark.parametrize(("target", "said"), PLANTED, ids=lambda value: getattr(value, "name", ""))
def test_a_broken_reader_is_found(target: Target, said: str) -> None:
    """Each thing that a target looks for, it finds."""
    found: list[str] = []
    for first in range(0, 600, 20):
        report = run(target, inputs=20, first=first, limits=Limits(shrink=False))
        found += [finding.error for finding in report.findings]
        if any(said in error for error in found):
            return
    pytest.fail(f"{said} is not among {found}")
