"""Checks before any search, and how many devices each request needs.

A request for all devices is counted here, from what is free before the pod takes anything; it
must not be served from a pool whose slices are still changing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kube.objects import JsonObject
from sim.scheduler.capacity import shortage
from sim.scheduler.constraints import constraint_of
from sim.scheduler.devices import Device
from sim.scheduler.errors import FatalError
from sim.scheduler.pools import Pool
from sim.scheduler.requests import ALL, Claim, Wanted
from sim.scheduler.scene import Scene
from sim.scheduler.selecting import Selection
from sim.scheduler.verdicts import Notebook, Refused

RESULTS_MAX = 32


class Candidate(NamedTuple):
    """A device with where it stands."""

    pool: Pool
    device: Device


@dataclass(frozen=True, slots=True)
class Need:
    """How many devices a request takes; *candidates* are set for a request for all."""

    count: int
    candidates: tuple[Candidate, ...] = ()


Needs = Mapping[Wanted, Need]


def check(scene: Scene, selection: Selection, notebook: Notebook) -> Needs:
    """Return what every request and alternative needs; raises `FatalError`."""
    needs: dict[Wanted, Need] = {}
    for claim in scene.claims:
        least = 0
        for request in claim.requests:
            for wanted in request.alternatives:
                _check_request(scene, wanted)
                needs[wanted] = _need(scene, claim, wanted, selection, notebook)
            least += min(needs[wanted].count for wanted in request.alternatives)
        for constraint in claim.constraints:
            constraint_of(constraint, scene.features)
        if least > RESULTS_MAX:
            message = f"claim {claim.key} needs {least} devices, the limit is {RESULTS_MAX}"
            raise FatalError("TooManyDevices", message)
    return needs


def _check_request(scene: Scene, wanted: Wanted) -> None:
    if wanted.capacity and not scene.features.consumable_capacity:
        raise FatalError(
            "CapacityUnsupported",
            f"request {wanted.name} asks for capacity, which this scheduler does not know",
        )
    device_class = scene.classes.get(wanted.class_name)
    if device_class is None:
        message = f"request {wanted.name}: device class {wanted.class_name} does not exist"
        raise FatalError("ClassMissing", message)
    in_class = (device_class.get("spec") or {}).get("selectors") or ()
    for selector in (*in_class, *wanted.selectors):
        if not _is_cel(selector):
            raise FatalError("SelectorUnknown", f"request {wanted.name}: a selector is no CEL")


def _is_cel(selector: JsonObject) -> bool:
    return bool((selector.get("cel") or {}).get("expression"))


def _need(
    scene: Scene, claim: Claim, wanted: Wanted, selection: Selection, notebook: Notebook
) -> Need:
    if wanted.mode != ALL:
        return Need(wanted.count)
    found = []
    for pool in scene.pools:
        _check_whole(pool, wanted)
        for device in (made for part in pool.slices for made in part.devices):
            refused = _leaves_out(scene, wanted, device, selection)
            if refused is None:
                found.append(Candidate(pool, device))
            else:
                notebook.note(claim.key, wanted.name, device.id, refused)
    return Need(len(found), tuple(found))


def _check_whole(pool: Pool, wanted: Wanted) -> None:
    where = f"request {wanted.name} asks for all devices: pool {pool.driver}/{pool.name}"
    if pool.incomplete:
        raise FatalError("PoolIncomplete", f"{where} is currently being updated")
    if pool.invalid:
        raise FatalError("PoolInvalid", f"{where} is invalid: {pool.invalid}")


def _leaves_out(
    scene: Scene, wanted: Wanted, device: Device, selection: Selection
) -> Refused | None:
    features = scene.features
    refused = selection.refusal(wanted, device)
    if refused or not features.consumable_capacity:
        return refused
    used = {} if features.all_mode_needs_capacity else scene.usage.used.get(device.id, {})
    return shortage(wanted, device, (used,), features)
