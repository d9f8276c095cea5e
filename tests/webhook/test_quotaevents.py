"""Tests of events on quotas."""

from typing import Any

from hami.deviceconfig import DeviceConfig
from hami.quota import quota_names
from kube.events import EventType, Regarding
from tests.webhook.quotaworld import quota
from webhook.quotaevents import QuotaEvents


class Recorder:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Regarding, EventType, str, str]] = []

    def event(self, regarding: Regarding, type_: EventType, reason: str, message: str) -> None:
        """Keep it."""
        self.told.append((regarding, type_, reason, message))


def events(recorder: Recorder) -> QuotaEvents:
    """Return what tells *recorder* as the leader."""
    return QuotaEvents(recorder, quota_names(DeviceConfig().nvidia, ()), lambda: True)


ODD: dict[str, Any] = {
    "limits.nvidia.com/gpumem": "4096",
    "limits.nvidia.com/gpucores": "0",
    "requests.nvidia.com/gpumemory": "6k",
    "pods": "1k",
}


def test_an_unknown_key_is_told_on_the_quota() -> None:
    """Its event names the quota and what was meant."""
    recorder = Recorder()
    events(recorder).look(quota(ODD))
    ((regarding, type_, reason, message),) = recorder.told
    assert regarding.reference() == {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "namespace": "team-red",
        "name": "gpu-quota",
        "uid": "uid-gpu-quota",
    }
    assert (type_, reason) == ("Warning", "QuotaKeyUnknown")
    assert message == (
        "requests.nvidia.com/gpumemory matches no configured GPU resource; "
        "did you mean nvidia.com/gpumem?"
    )


def test_a_hundred_changes_of_status_say_nothing_new() -> None:
    """Only what the author wrote counts, and that is told again when it changes."""
    recorder = Recorder()
    told = events(recorder)
    for number in range(100):
        told.look({**quota(ODD), "status": {"used": {"pods": str(number)}}})
    assert len(recorder.told) == 1
    told.look(quota({"limits.nvidia.com/gpumemory": "1"}))
    assert len(recorder.told) == 2


def test_only_the_leader_tells() -> None:
    """Another replica keeps what it saw last until it leads."""
    recorder, leads = Recorder(), [False]
    told = QuotaEvents(recorder, quota_names(DeviceConfig().nvidia, ()), lambda: leads[0])
    told.look(quota({"limits.nvidia.com/gpus": "1"}))
    told.look(quota(ODD))
    assert recorder.told == []
    leads[0] = True
    told.begin_to_lead()
    assert [reason for _, _, reason, _ in recorder.told] == ["QuotaKeyUnknown"]


def test_anything_can_be_looked_at() -> None:
    """An object that is no quota has nothing odd."""
    recorder = Recorder()
    events(recorder).look({"metadata": 3, "spec": []})
    assert recorder.told == []
