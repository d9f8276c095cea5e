"""Finding out, without a trace, whether a server keeps what sharing needs."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from dra.sharing import Sharing, SharingProbe, SharingVerdict, sharing_losses
from dra.sharing_state import SharingState
from kube.events import EventType, Regarding
from kube.paths import resource_slices
from sim.apiserver.versions import CONSUMABLE_CAPACITY, DEVICE_TAINTS
from tests.fakes.api_server import ServerThread, serving

NODE = Regarding(api_version="v1", kind="Node", name="node-1", uid="uid-1")


@contextmanager
def asking(version: str = "1.37") -> Iterator[tuple[ServerThread, SharingProbe]]:
    """Run an API server and yield it and a probe of it."""
    with serving(version) as where, closing(where.client()) as client:
        yield where, SharingProbe(client, node_name="node-1", node_uid="uid-1")


class Events:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def event(self, regarding: Regarding, kind: EventType, reason: str, message: str) -> None:
        """Keep one event."""
        assert regarding == NODE
        assert message
        self.told.append((kind, reason))


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ("1.34", Sharing.DROPPED),
        ("1.35", Sharing.DROPPED),
        ("1.36", Sharing.KEPT),
        ("1.37.2", Sharing.KEPT),
    ],
)
def test_the_default_gates_of_each_release(version: str, state: Sharing) -> None:
    """Sharing is kept by default from Kubernetes 1.36 on."""
    with asking(version) as (_, probe):
        verdict = probe.probe()
    assert verdict.state is state
    assert verdict.kept is (state is Sharing.KEPT)
    assert verdict.server_version.startswith(f"v{version}")
    assert verdict.taints_kept is verdict.kept


@pytest.mark.parametrize("gate", [CONSUMABLE_CAPACITY, DEVICE_TAINTS])
def test_taints_and_sharing_are_told_apart(gate: str) -> None:
    """Each depends on a gate of its own."""
    with asking("1.37") as (where, probe):
        where.call(where.server.set_version, "1.37", gates=frozenset({gate}))
        verdict = probe.probe()
    assert verdict.kept is (gate == CONSUMABLE_CAPACITY)
    assert verdict.taints_kept is (gate == DEVICE_TAINTS)


def test_the_gate_counts_and_not_the_version() -> None:
    """An old server with the gate on keeps sharing, a new one with it off does not."""
    with asking("1.34") as (where, probe):
        where.call(where.server.set_version, "1.34", gates=frozenset({CONSUMABLE_CAPACITY}))
        assert probe.probe().kept
        where.call(where.server.set_version, "1.37", gates=frozenset())
        verdict = probe.probe()
    assert sharing_losses(verdict.dropped) == (
        "spec.devices[].allowMultipleAllocations",
        "spec.devices[].capacity.memory.requestPolicy",
        "spec.devices[].capacity.cores.requestPolicy",
        "spec.devices[].capacity.shares.requestPolicy",
    )


@pytest.mark.parametrize("version", ["1.34", "1.37"])
def test_a_probe_leaves_nothing_behind(version: str) -> None:
    """No slice exists afterwards, and no watcher could have seen one."""
    with asking(version) as (where, probe), closing(where.client()) as client:
        before = client.get(resource_slices())
        probe.probe()
        assert client.get(resource_slices()) == before
        assert b'"items":[]' in before


@pytest.mark.parametrize("status", [403, 422, 429, 500])
def test_a_server_that_fails_is_not_known(status: int) -> None:
    """A refusal or failure is no verdict; its words are kept."""
    with asking() as (where, probe):
        where.call(where.server.fail_next, 1, status, verb="create")
        verdict = probe.probe()
    assert verdict.state is Sharing.UNKNOWN
    assert not verdict.kept
    assert "injected fault" in verdict.detail


def test_a_server_that_is_away_is_not_known() -> None:
    """No answer is no verdict."""
    with asking() as (_, probe):
        pass
    verdict = probe.probe()
    assert verdict.state is Sharing.UNKNOWN


def test_only_losses_of_sharing_count() -> None:
    """Taints that a server drops do not close GPUs."""
    lost = ("spec.devices[].taints", "spec.devices[].capacity.memory.requestPolicy.default")
    assert sharing_losses(lost) == lost[1:]


def test_a_verdict_stands_through_failures() -> None:
    """Once known, sharing stays as it is while the server cannot be asked."""
    with asking() as (where, probe):
        events = Events()
        state = SharingState(probe, events, NODE)
        assert not state.is_settled()
        assert state.ask_if_stale() is None
        assert state.verdict.kept
        where.call(where.server.fail_next, 9, 503, verb="create")
        for _ in range(5):
            state.mark_stale()
            assert state.ask_if_stale() is not None
            assert state.verdict.kept
        assert events.told == []


def test_without_a_verdict_gpus_are_closed_after_some_tries() -> None:
    """The third failure of the very first question settles it: not shared."""
    with asking() as (where, probe):
        where.call(where.server.fail_next, 9, 503, verb="create")
        state = SharingState(probe, Events(), NODE)
        settled = []
        for _ in range(3):
            state.ask_if_stale()
            settled.append(state.is_settled())
        assert settled == [False, False, True]
        assert not state.verdict.kept


def test_each_turn_is_told_once() -> None:
    """Dropped, still dropped, overruled, kept: one event for each change."""
    with asking("1.34") as (where, probe):
        events = Events()
        state = SharingState(probe, events, NODE)
        for _ in range(3):
            state.mark_stale()
            state.ask_if_stale()
        assert events.told == [("Warning", "SharingNotSupported")]
        where.call(where.server.set_version, "1.36")
        state.mark_stale()
        state.ask_if_stale()
        assert events.told[1:] == [("Normal", "SharingSupported")]
        state.overrule(("spec.devices[].allowMultipleAllocations",))
        state.overrule(("spec.devices[].allowMultipleAllocations",))
        assert events.told[2:] == [("Warning", "SharingNotSupported")]
        assert state.verdict == SharingVerdict(
            state=Sharing.DROPPED,
            taints_kept=True,
            dropped=("spec.devices[].allowMultipleAllocations",),
            server_version="v1.36.0",
        )


def test_a_server_that_drops_a_taint_is_believed() -> None:
    """What became of a real slice overrules the probe, once, and sharing stays."""
    with asking("1.37") as (_, probe):
        events = Events()
        state = SharingState(probe, events, NODE)
        state.ask_if_stale()
        assert state.overrule(("spec.devices[].taints",))
        assert not state.overrule(("spec.devices[].taints",))
        assert state.verdict.kept
        assert not state.verdict.taints_kept
        assert events.told == []


def test_a_renewed_watch_asks_only_a_server_that_could_not_share() -> None:
    """An update behind the watch's back is found, and a server that shares is left in peace."""
    with asking("1.34") as (where, probe):
        state = SharingState(probe, Events(), NODE)
        state.ask_if_stale()
        where.call(where.server.set_version, "1.37")
        state.mark_renewed()
        state.ask_if_stale()
        assert state.verdict.kept
        asked = len(where.server.requests)
        state.mark_renewed()
        state.ask_if_stale()
        assert len(where.server.requests) == asked
