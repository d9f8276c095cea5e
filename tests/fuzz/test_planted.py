"""Readers that are broken on purpose: each property of each target finds its own."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdi.delegate import Generated
from cdi.recovery import RecoveredSpec, recover
from cdi.spec import Spec, canonical
from dra.devices import Offer
from dra.journal import DamagedError
from dra.pods import PodUse, read_pod
from dra.prepare import Preparer
from dra.record import PreparedClaim
from dra.slice_diff import lost_fields
from dra.slice_plan import Plan, plan_slices
from dra.state import StateStore
from gpu.model import Inventory
from gpu.operatorfile import OperatorRoots
from gpu.operatorfile import read as read_operator_file
from kube import quantity, shareconfig
from kube.errors import KubeError
from kube.objects import JsonObject
from kube.quantity import Quantity
from kube.shareconfig import ShareConfig
from tests.dra.builders import BOOT_ID, a_record
from tests.fuzz import cdi_files, claims, nvml_answers
from tests.fuzz.cdi_files import CdiFiles, GeneratedFiles
from tests.fuzz.checkpoints import Checkpoints, Records, open_state
from tests.fuzz.claims import Claims
from tests.fuzz.nvml_answers import NvmlAnswers
from tests.fuzz.operator_files import OperatorFiles
from tests.fuzz.planting import expect_found
from tests.fuzz.pods import Pods
from tests.fuzz.prepare_calls import PrepareCalls
from tests.fuzz.quantities import Quantities
from tests.fuzz.recovered_specs import RecoveredSpecs
from tests.fuzz.running import Limits, Target, TookTooLongError, run
from tests.fuzz.shareconfigs import ShareConfigs
from tests.fuzz.slices import Losses, Slices
from tests.fuzz.watch_lines import WatchLines


def zero_for_errors(text: str) -> Quantity:
    """Take what is no quantity for nothing."""
    try:
        return quantity.parse(text)
    except quantity.QuantityError:
        return Quantity(0)


def by_floats(text: str) -> Quantity:
    """Lose what a float cannot hold."""
    return Quantity(int(float(quantity.parse(text).nanos)))


def without_typos(parameters: dict[str, Any]) -> ShareConfig:
    """Pass over fields that nobody knows."""
    fields = ("apiVersion", "kind", "priority", "corePolicy", "enforcement", "logLevel")
    return shareconfig.parse({key: parameters[key] for key in fields if key in parameters})


def lax(parameters: dict[str, Any]) -> ShareConfig:
    """Take truth values for numbers."""
    return ShareConfig.model_validate(parameters, strict=False)


def altered(**changes: Any) -> Callable[[bytes], tuple[PreparedClaim, bytes]]:
    """Return a decision whose devices have *changes*."""

    def decide(body: bytes) -> tuple[PreparedClaim, bytes]:
        record, spec = claims.decide(body)
        devices = tuple(replace(device, **changes) for device in record.devices)
        return replace(record, devices=devices), spec

    return decide


def unlimited(body: bytes) -> tuple[PreparedClaim, bytes]:
    """Forget the limits."""
    record, spec = claims.decide(body)
    return replace(record, limits=(), options=None), spec


def zero_in_spec(body: bytes) -> tuple[PreparedClaim, bytes]:
    """Write a limit of 0, by which HAMi-core limits nothing."""
    record, spec = claims.decide(body)
    return record, spec.replace(b"MEMORY_LIMIT_0=1000m", b"MEMORY_LIMIT_0=0m")


def unchecked(directory: Path) -> StateStore:
    """Pass over damage, and begin with nothing."""
    try:
        return open_state(directory)
    except DamagedError:
        for path in directory.iterdir():
            path.unlink()
        return open_state(directory)


def forgetful(directory: Path) -> StateStore:
    """Open a state of one claim more, as a record of another file would make it."""
    store = open_state(directory)
    with store.transaction() as transaction:
        transaction.put(a_record(9))
    return store


def bare(directory: Path) -> StateStore:
    """Let whatever is raised be raised."""
    json.loads((directory / "snapshot.00000001").read_bytes()[9:])["claims"][0]["uid"]
    return StateStore(directory, boot_id=BOOT_ID)


def without_hooks(data: bytes) -> Spec:
    """Drop a part in silence whenever a document is read."""
    spec = Spec.parse(data)
    return spec.model_copy(update={"devices": spec.devices[:1]})


def unsorted(data: bytes) -> Spec:
    """Fail as Python does."""
    document = json.loads(data)
    return canonical(Spec.parse(json.dumps(document).encode()))


def untyped(document: bytes) -> Generated:
    """Leave a node without its type."""
    found = cdi_files.delegated(document)
    nodes = tuple(each.model_copy(update={"type": ""}) for each in found.common.device_nodes)
    return replace(found, common=found.common.model_copy(update={"device_nodes": nodes}))


def limitless(claim_uid: str, data: bytes) -> RecoveredSpec:
    """Forget the limits that a spec names."""
    return replace(recover(claim_uid, data), limits=())


def halved(plan: Mapping[str, Any]) -> Inventory:
    """Read half of the memory."""
    found = nvml_answers.read_inventory(plan)
    gpus = tuple(replace(gpu, memory_mib=(gpu.memory_mib or 0) // 2) for gpu in found.gpus)
    return replace(found, gpus=gpus)


def first_only(plan: Mapping[str, Any]) -> Inventory:
    """Lose a GPU that cannot be read."""
    return replace(nvml_answers.read_inventory(plan), faults=())


def nothing_offered(inventory: Inventory, *, sharing_kept: bool) -> Offer:
    """Offer devices of no memory."""
    offer = nvml_answers.offer_of(inventory, sharing_kept=sharing_kept)
    zero = {"memory": {"value": "0"}}
    return replace(offer, devices=tuple(each | {"capacity": zero} for each in offer.devices))


def keeping(desired: Sequence[JsonObject], existing: Sequence[JsonObject]) -> Plan:
    """Delete nothing."""
    return replace(plan_slices(desired, existing), deletes=())


def nothing_lost(sent: JsonObject, stored: JsonObject) -> tuple[str, ...]:
    """Notice nothing."""
    lost_fields(sent, stored)
    return ()


def claimless(raw: JsonObject) -> PodUse:
    """Forget the init containers."""
    found = read_pod(raw)
    return replace(found, containers=found.containers[1:])


def relative(path: Path) -> OperatorRoots | None:
    """Take any text for a path."""
    found = read_operator_file(path)
    return None if found is None else replace(found, dev_root="dev")


class Crashing(Preparer):
    """Raises what no answer is made for."""

    def __init__(self, _around: Preparer) -> None:
        """Hold nothing."""

    def prepare(self, *_arguments: Any, **_options: Any) -> PreparedClaim:
        """Raise an error that is not ours."""
        raise KeyError("planted")


PLANTED: list[tuple[Target, str]] = [
    (Quantities(zero_for_errors), "no quantity was taken"),
    (Quantities(by_floats), "another number"),
    (Quantities(lambda text: Quantity(int(text))), "ValueError: invalid literal"),
    (ShareConfigs(without_typos), "an invalid configuration"),
    (ShareConfigs(lax), "an invalid configuration"),
    (ShareConfigs(lambda parameters: ShareConfig(**parameters)), "ValidationError"),
    (Claims(altered(memory_mib=0)), "another amount"),
    (Claims(altered(cores_percent=0)), "another amount"),
    (Claims(unlimited), "a share has no limit"),
    (Claims(zero_in_spec), "other variables"),
    (Claims(lambda body: (a_record(int(json.loads(body)["metadata"]["name"])), b"")), "Error"),
    (PrepareCalls(Crashing), "not ours: InternalError: KeyError('planted')"),
    (Checkpoints(unchecked), "a state that never was"),
    (Checkpoints(forgetful), "a state that never was"),
    (Checkpoints(bare), "Error"),
    (Records(unchecked), "other claims"),
    (Records(bare), "Error"),
    (CdiFiles(without_hooks), "a device is lost"),
    (CdiFiles(unsorted), "JSONDecodeError"),
    (GeneratedFiles(untyped), "a node without numbers"),
    (RecoveredSpecs(limitless), "other limits"),
    (NvmlAnswers(halved), "other memory"),
    (NvmlAnswers(first_only), "0 GPUs and not"),
    (NvmlAnswers(offer=nothing_offered), "nothing is offered: memory"),
    (Slices(keeping), "slices"),
    (Slices(lambda _desired, _existing: Plan()), "other slices"),
    (Losses(nothing_lost), "sharing is lost"),
    (Pods(claimless), "other claims"),
    (OperatorFiles(relative), "a relative path"),
    (WatchLines((KubeError,)), "JSONDecodeError"),
]


@pytest.mark.parametrize(("target", "said"), PLANTED, ids=lambda value: getattr(value, "name", ""))
def test_a_broken_reader_is_found(target: Target, said: str) -> None:
    """Each thing that a target looks for, it finds."""
    expect_found(target, said)


def test_a_reader_that_never_ends_is_found() -> None:
    """The time of the processor is what counts, so that a busy machine finds nothing."""

    def endless(text: str) -> Quantity:
        while True:
            quantity.parse(text or "0")

    report = run(Quantities(endless), inputs=3, limits=Limits(hang_s=0.05))
    assert TookTooLongError.__name__ in report.findings[0].error


def test_a_finding_is_made_small() -> None:
    """What is shown of it is what it needs to be one."""

    def picky(parameters: dict[str, Any]) -> ShareConfig:
        if "priority" in parameters:
            raise LookupError("planted")
        return shareconfig.parse(parameters)

    report = run(ShareConfigs(picky), inputs=200)
    (found,) = [each for each in report.findings if "planted" in each.error]
    assert list(found.sample) == ["priority"]
