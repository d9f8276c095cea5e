"""Who decides: the replica beside the kube-scheduler that leads."""

import asyncio

import pytest

from extender.gate import Gate
from extender.leading import AlwaysLeading, Holding, Leading, holding_of, is_of
from extender.metrics import Metrics
from kube.objects import JsonObject
from kube.paths import leases
from tests.extender.standins import MemoryState, Switch, nothing, open_gate, reservation
from tests.fakes.api_server import serving

_UUID = "7c1f8b2e-0d6a-4c3e-9a38-5a3f6f1f2b11"


@pytest.mark.parametrize(
    ("holder", "is_ours"),
    [
        (f"sched-1_{_UUID}", True),
        (f"sched-10_{_UUID}", False),
        (f"sched-1_x_{_UUID}", False),
        ("sched-1", False),
        ("sched-1_", True),
        ("", False),
        (f"_{_UUID}", False),
    ],
)
def test_the_whole_host_name_is_compared(holder: str, is_ours: bool) -> None:  # noqa: FBT001
    """A replica of a name that begins like ours is another one."""
    assert is_of(holder, "sched-1") is is_ours


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"holderIdentity": "a_b", "leaseDurationSeconds": 30}, Holding("a_b", 30)),
        ({"holderIdentity": None, "leaseDurationSeconds": "x"}, Holding("", 15)),
        ({"leaseDurationSeconds": -1}, Holding("", 15)),
        ({"leaseDurationSeconds": True}, Holding("", 15)),
        (None, Holding("", 15)),
        ([], Holding("", 15)),
    ],
)
def test_odd_leases_are_held_by_nobody(spec: object, expected: Holding) -> None:
    """Nothing in a Lease raises."""
    assert holding_of({"spec": spec}) == expected


def _lease(holder: str, renewed: int = 0) -> JsonObject:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "hami-scheduler", "namespace": "kube-system"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "renewTime": f"2026-11-30T02:41:{renewed:02}.000000Z",
        },
    }


def test_the_lease_of_kube_scheduler_is_followed() -> None:
    """Through the API server: nobody, we, another, nobody."""

    async def scene() -> None:
        heard: list[bool] = []
        with serving() as server:
            client = server.client("extender")
            leading = Leading(
                client,
                namespace="kube-system",
                name="hami-scheduler",
                hostname="sched-1",
                loop=asyncio.get_running_loop(),
            )
            leading.on_change(heard.append)
            leading.start()
            assert "has not been seen" in (leading.problem() or "")
            path = leases("kube-system", "hami-scheduler")
            await asyncio.to_thread(
                client.create, leases("kube-system"), _lease(f"sched-1_{_UUID}")
            )
            await _until(leading.leads)
            assert leading.problem() is None
            await asyncio.to_thread(client.replace, path, _lease(f"sched-10_{_UUID}"))
            await _until(lambda: not leading.leads())
            assert leading.problem() == f"sched-10_{_UUID} leads, not sched-1"
            await asyncio.to_thread(client.replace, path, _lease(f"sched-1_{_UUID}"))
            await _until(leading.leads)
            await asyncio.to_thread(client.delete, path)
            await _until(lambda: not leading.leads())
            leading.stop()
            client.close()
        assert heard == [True, False, True, False]

    asyncio.run(scene())


async def _until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - a test looks
            await asyncio.sleep(0.01)


class _Clock(asyncio.SelectorEventLoop):
    """A loop whose time passes at once when nothing else is to be done."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_s = 0.0

    def time(self) -> float:
        """Return the time."""
        return super().time() + self.ahead_s


def test_a_lease_that_is_not_renewed_is_believed_for_two_thirds_of_its_time() -> None:
    """Then kube-scheduler has given up itself, and nobody else has begun."""
    loop = _Clock()
    heard: list[bool] = []

    async def scene() -> None:
        with serving() as server:
            client = server.client("extender")
            leading = Leading(client, namespace="ns", name="lease", hostname="sched-1", loop=loop)
            leading.on_change(heard.append)
            leading.take(Holding("sched-1_x", 15))
            loop.ahead_s = 9.5
            assert leading.leads()
            leading.take(Holding("sched-1_x", 15))
            loop.ahead_s = 19.0
            await asyncio.sleep(0)
            assert leading.leads()
            loop.ahead_s = 19.6
            await asyncio.sleep(0.05)
            assert not leading.leads()
            assert leading.problem() == "the Lease ns/lease is not renewed"
            client.close()

    try:
        loop.run_until_complete(scene())
    finally:
        loop.close()
    assert heard == [True, False]


def test_a_single_replica_always_leads() -> None:
    """Nobody has to be followed."""
    heard: list[bool] = []
    leading = AlwaysLeading()
    leading.on_change(heard.append)
    assert leading.leads()
    assert leading.problem() is None
    assert heard == [True]


def test_losing_and_gaining_the_lead_forgets_reservations() -> None:
    """They were made by a decision that nobody stands for any more."""

    async def scene() -> None:
        state, switch, metrics = MemoryState(), Switch(), Metrics()
        gate = await open_gate(state, metrics, switch)
        state.reserve(reservation())
        switch.turn("another leads")
        assert not state.reservations
        assert gate.problem() == "another leads"
        assert metrics.registry.get_sample_value("gpuslice_extender_is_leader") == 0
        switch.turn(None)
        assert state.drops == 3

    asyncio.run(scene())


def test_a_new_leader_first_learns_what_the_old_one_did() -> None:
    """Until then it is not ready, however often that fails; a lead that ends stops the learning."""

    async def scene() -> None:
        state, switch = MemoryState(), Switch(reason="another leads")
        learned = asyncio.Event()
        tries = 0

        async def catch_up() -> None:
            nonlocal tries
            tries += 1
            await learned.wait()

        gate = Gate(switch, state, Metrics(), catch_up=catch_up)
        switch.turn(None)
        await asyncio.sleep(0)
        assert gate.leads()
        assert "another leader" in (gate.problem() or "")
        switch.turn("another leads")
        switch.turn(None)
        learned.set()
        assert await gate.wait(20) is None
        assert tries == 2

    asyncio.run(scene())


def test_waiting_ends_with_the_reason() -> None:
    """Whoever asked hears why."""

    async def scene() -> None:
        gate = Gate(Switch("another leads"), MemoryState(), Metrics(), catch_up=nothing)
        assert await gate.wait(0.05) == "another leads"

    asyncio.run(scene())
