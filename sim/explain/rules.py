"""Whose rules to apply: the release of the cluster and its feature gates, as far as they show.

A server drops the fields of features that are off, so a field that is there says that its feature
is on, whatever the release has by default. The scheduler of a cluster is taken for as new as its
API server, and for one with the same gates.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kube.objects import JsonObject
from sim.explain.answers import Answers
from sim.explain.errors import RulesUnknownError
from sim.explain.snapshot import Snapshot
from sim.scheduler.allocator import Allocator
from sim.scheduler.errors import SchedulerError

RELEASES = ("1.34", "1.35", "1.36", "1.37")
"""Those whose rules are known."""
NEWEST = RELEASES[-1]
_OLD = ("1.34", "1.35")
"""Those that have features off which are on by default since."""
_MINOR = re.compile(r"v?(\d+)\.(\d+)")
_LISTS = ("ints", "bools", "strings", "versions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The release to follow, the gates that differ from it, and what to say about the choice."""

    release: str
    gates: Mapping[str, bool] = field(default_factory=dict)
    note: str = ""

    def allocator(self, answers: Answers) -> Allocator:
        """Return an allocator that follows them; raises `RulesUnknownError`."""
        try:
            return Allocator(self.release, gates=self.gates, matches=answers.matches)
        except SchedulerError as error:
            raise RulesUnknownError(str(error)) from error


def rules_of(version: str, snapshot: Snapshot, *, gates: Mapping[str, bool] | None = None) -> Rules:
    """Choose by a *version* such as `v1.37.2`, or without one by what the nodes run.

    *gates* are those that the user knows better than they show.
    """
    release, note = _release(version, snapshot)
    shown = dict.fromkeys(_gates(release, snapshot), True)
    return Rules(release=release, gates={**shown, **(gates or {})}, note=note)


def _release(version: str, snapshot: Snapshot) -> tuple[str, str]:
    minor = _minor(version) or max(filter(None, map(_minor, _kubelets(snapshot))), default=None)
    if minor is None:
        return NEWEST, f"the cluster's release is not known: the rules are those of {NEWEST}"
    older = [release for release in RELEASES if (_minor(release) or minor) <= minor]
    chosen = older[-1] if older else RELEASES[0]
    if _minor(chosen) == minor:
        return chosen, ""
    text = ".".join(str(number) for number in minor)
    return chosen, f"the rules of {text} are not known: these are those of {chosen}"


def _kubelets(snapshot: Snapshot) -> list[str]:
    infos = ((node.get("status") or {}).get("nodeInfo") or {} for node in snapshot.nodes)
    return [str(info["kubeletVersion"]) for info in infos if info.get("kubeletVersion")]


def _minor(version: str) -> tuple[int, int] | None:
    match = _MINOR.match(version)
    return (int(match[1]), int(match[2])) if match else None


def _gates(release: str, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.rules:
        yield "DRADeviceTaintRules"
    devices = [it for item in snapshot.slices for it in item["spec"].get("devices") or ()]
    if any(_has_list(device) for device in devices):
        yield "DRAListTypeAttributes"
    if release not in _OLD:
        return
    if any(device.get("allowMultipleAllocations") for device in devices):
        yield "DRAConsumableCapacity"
    if any(item["spec"].get("sharedCounters") for item in snapshot.slices):
        yield "DRAPartitionableDevices"
    if any(device.get("taints") for device in devices):
        yield "DRADeviceTaints"
    if any(device.get("bindingConditions") for device in devices):
        yield "DRADeviceBindingConditions"


def _has_list(device: JsonObject) -> bool:
    values = (device.get("attributes") or {}).values()
    return any(kind in value for value in values for kind in _LISTS)
