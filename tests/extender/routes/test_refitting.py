"""`/refit` behind its checks, against a simulated API server."""

import asyncio
import json
from typing import Any

import pytest

from extender.callers import Caller, CallerError, Callers
from extender.parts import RefitAsk, Refitted
from extender.routes.refitting import UUIDS_MAX, Refitting
from hami.devices import PodDevice
from tests.extender.locking import Scene, scene
from tests.extender.standins import ScriptedRefitter, open_gate

_DEVICES = (
    PodDevice(uuid="GPU-1", type="NVIDIA", memory_mib=1000, cores=10),
    PodDevice(uuid="GPU-2", type="NVIDIA", memory_mib=1000, cores=10),
)
_LISTS = "GPU-1,NVIDIA,1000,10:GPU-2,NVIDIA,1000,10:;"
_REFITTED = Refitted(
    devices=_DEVICES,
    annotations={
        "hami.io/vgpu-devices-to-allocate": _LISTS,
        "hami.io/vgpu-devices-allocated": _LISTS,
    },
)
_CALLER = Caller(username="plugin", node="gpu1")


async def _route(here: Scene, refitter: ScriptedRefitter) -> Refitting:
    return Refitting(
        refitter=refitter,
        state=here.state,
        gate=await open_gate(here.state, here.metrics, here.switch),
        calls=here.calls,
        callers=Callers(here.calls, accounts=("plugin",)),
        metrics=here.metrics,
    )


def _body(uid: str, **changed: Any) -> bytes:
    said = {
        "podUID": uid,
        "podNamespace": "default",
        "podName": "p",
        "nodeName": "gpu1",
        "containerIndex": 0,
        "containerName": "c",
        "deviceType": "NVIDIA",
        "allowedDeviceUUIDs": ["GPU-1", "GPU-2"],
        **changed,
    }
    return json.dumps(said).encode()


def test_devices_are_moved_in_one_patch() -> None:
    """The answer is the container's list as HAMi encodes it."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            uid = await here.create_pod("p", nodeName="gpu1")
            refitter = ScriptedRefitter(_REFITTED)
            route = await _route(here, refitter)
            before = len(here.writes())
            said = json.loads(await route.refit(_CALLER, _body(uid)))
            assert said == {"succeeded": True, "containerDevices": _LISTS.removesuffix(";")}
            assert len(here.writes()) == before + 1
            pod = await here.get("pods", "p")
            assert pod["metadata"]["annotations"] == _REFITTED.annotations
            assert refitter.asked == [
                RefitAsk(
                    uid=uid,
                    namespace="default",
                    name="p",
                    node="gpu1",
                    container_index=0,
                    container_name="c",
                    word="NVIDIA",
                    allowed=frozenset({"GPU-1", "GPU-2"}),
                )
            ]
            assert (refitter.kept, refitter.undone) == (1, 0)

    asyncio.run(play())


def test_a_refusal_is_in_band_and_writes_nothing() -> None:
    """The plugin decides by its pod's annotation what to make of it."""

    async def play() -> None:
        async with scene() as here:
            uid = await here.create_pod("p", nodeName="gpu1")
            route = await _route(here, ScriptedRefitter("no allowed device fits"))
            before = len(here.writes())
            said = json.loads(await route.refit(_CALLER, _body(uid)))
            assert said == {"succeeded": False, "failureReason": "no allowed device fits"}
            assert len(here.writes()) == before

    asyncio.run(play())


@pytest.mark.parametrize(("status", "kept"), [(422, 0), (403, 0), (500, 1)])
def test_what_cannot_be_written_is_not_promised(status: int, kept: int) -> None:
    """Where it may be written all the same, the devices stay booked."""

    async def play() -> None:
        async with scene() as here:
            uid = await here.create_pod("p", nodeName="gpu1")
            refitter = ScriptedRefitter(_REFITTED)
            route = await _route(here, refitter)
            fail = here.server.server.fail_next
            here.server.call(fail, 1, status, verb="patch", path_part="/pods/p")
            said = json.loads(await route.refit(_CALLER, _body(uid)))
            assert said["succeeded"] is False
            assert "cannot be annotated" in said["failureReason"]
            assert (refitter.kept, refitter.undone) == (kept, 1 - kept)

    asyncio.run(play())


def test_a_pod_that_changes_meanwhile_is_looked_at_again() -> None:
    """What is written is chosen by what is there."""

    async def play() -> None:
        async with scene() as here:
            uid = await here.create_pod("p", nodeName="gpu1")
            refitter = ScriptedRefitter(_REFITTED)
            route = await _route(here, refitter)
            fail = here.server.server.fail_next
            here.server.call(fail, 1, 409, verb="patch", path_part="/pods/p")
            assert json.loads(await route.refit(_CALLER, _body(uid)))["succeeded"]
            assert (len(refitter.asked), refitter.kept, refitter.undone) == (2, 1, 1)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("caller", "changed", "code"),
    [
        (Caller(username="plugin", node="gpu2"), {}, 403),
        (Caller(username="plugin", node="gpu2"), {"nodeName": "gpu2"}, 403),
        (_CALLER, {"podUID": "other"}, 404),
        (_CALLER, {"podName": "unknown"}, 404),
        (_CALLER, {"nodeName": "gpu2"}, 403),
        (_CALLER, {"allowedDeviceUUIDs": []}, 400),
        (_CALLER, {"allowedDeviceUUIDs": ["x"] * (UUIDS_MAX + 1)}, 400),
        (_CALLER, {"allowedDeviceUUIDs": [1]}, 400),
        (_CALLER, {"containerIndex": -1}, 400),
        (_CALLER, {"containerIndex": "0"}, 400),
        (_CALLER, {"podUID": ""}, 400),
        (_CALLER, {"deviceType": None}, 400),
    ],
)
def test_nobody_moves_devices_of_others(caller: Caller, changed: dict[str, Any], code: int) -> None:
    """The caller's node, the node that is named and the pod's node must be one."""

    async def play() -> None:
        async with scene() as here:
            uid = await here.create_pod("p", nodeName="gpu1")
            refitter = ScriptedRefitter(_REFITTED)
            route = await _route(here, refitter)
            with pytest.raises(CallerError) as refused:
                await route.refit(caller, _body(uid, **changed))
            assert refused.value.status == code
            assert not refitter.asked

    asyncio.run(play())


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b"\xff"])
def test_odd_bodies_are_refused(body: bytes) -> None:
    """With the reason."""

    async def play() -> None:
        async with scene() as here:
            route = await _route(here, ScriptedRefitter(_REFITTED))
            with pytest.raises(CallerError, match="cannot be read"):
                await route.refit(_CALLER, body)

    asyncio.run(play())


def test_a_pod_that_is_not_bound_has_nothing_to_move() -> None:
    """Its devices are decided by the next `/filter`."""

    async def play() -> None:
        async with scene() as here:
            uid = await here.create_pod("p")
            route = await _route(here, ScriptedRefitter(_REFITTED))
            with pytest.raises(CallerError, match="not known here"):
                await route.refit(_CALLER, _body(uid))

    asyncio.run(play())
