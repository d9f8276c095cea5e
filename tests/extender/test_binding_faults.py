"""Whatever becomes of a binding's requests: nothing is booked twice, and nothing gets stuck."""

import asyncio
from typing import Final

import pytest

from extender.wire import BindingArgs
from kube.client import MERGE_PATCH
from kube.objects import JsonObject
from kube.paths import pods
from tests.extender.forgetful import LATE, LOST, NOTHING, REFUSED, Trouble
from tests.extender.locking import Scene, lock_value, scene, until
from tests.extender.standins import reservation
from tests.fakes.scripted_server import Request

_OWNED: Final = {
    "hami.io/vgpu-devices-to-allocate",
    "hami.io/vgpu-devices-allocated",
    "hami.io/vgpu-node",
    "hami.io/vgpu-time",
    "hami.io/bind-phase",
    "hami.io/bind-time",
}
_LOCK: Final = ("PATCH", "/nodes/gpu1")
_ANNOTATIONS: Final = ("PATCH", "/pods/p")
_BINDING: Final = ("POST", "/binding")
_POD: Final = ("GET", "/pods/p")
_NODE: Final = ("GET", "/nodes/gpu1")
_STEPS: Final = {"lock": _LOCK, "annotations": _ANNOTATIONS, "binding": _BINDING}
_SAID: Final = {
    "lock": "cannot be locked",
    "annotations": "cannot be annotated",
    "binding": "cannot be bound",
}
_TROUBLES: Final[tuple[Trouble, ...]] = (LOST, REFUSED, LATE, 409, 404, 403, 429, 500, 503)


def _annotations(pod: JsonObject) -> dict[str, str]:
    return pod["metadata"].get("annotations") or {}


async def _is_whole(here: Scene, args: BindingArgs) -> None:
    """Assert that the pod is bound with all that belongs to it, and that its devices are kept."""
    pod = await here.get("pods", args.pod_name)
    assert pod["spec"]["nodeName"] == "gpu1"
    assert _annotations(pod).keys() == _OWNED
    assert pod["metadata"]["labels"] == {"hami.io/vgpu-node": "gpu1"}
    assert (await here.lock_of() or "").endswith(f",default,{args.pod_name}")
    assert args.pod_uid in here.state.reservations
    assert args.pod_uid in here.state.confirmed


async def _is_clean(here: Scene, *, unlocked: bool = True) -> None:
    """Assert that nothing of the try is left."""
    pod = await here.get("pods", "p")
    assert not _annotations(pod).keys() & _OWNED
    assert not (pod["metadata"].get("labels") or {}).get("hami.io/vgpu-node")
    assert not pod["spec"].get("nodeName")
    lock = await here.lock_of()
    assert lock is None if unlocked else lock is None or lock.endswith(",default,p")
    assert not here.state.reservations


async def _settled(here: Scene) -> None:
    await until(lambda: not here.binder.busy)


async def _goes_on(here: Scene, args: BindingArgs) -> None:
    """Assert that the pod can be bound after all, and then the next one."""
    if not (await here.get("pods", "p"))["spec"].get("nodeName"):
        here.state.reserve(reservation("p", uid=args.pod_uid, version=here.versions[args.pod_uid]))
        assert await here.binder.bind(args) == ""
    await _is_whole(here, args)
    await here.remove_lock()
    following = await here.reserved("q")
    assert await here.binder.bind(following) == ""
    await _is_whole(here, following)


@pytest.mark.parametrize("trouble", _TROUBLES)
@pytest.mark.parametrize("step", _STEPS)
def test_one_request_fails(step: str, trouble: Trouble) -> None:
    """The pod is bound all the same, or nothing is left of the try and the next one succeeds."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            here.way.plan = [(*_STEPS[step], trouble)]
            said = await here.binder.bind(args)
            await _settled(here)
            assert not here.way.plan
            if said:
                assert _SAID[step] in said
                await _is_clean(here)
            else:
                await _is_whole(here, args)
            is_stray = step == "lock" and trouble == LATE
            assert here.way.deliver() == ([200] if is_stray else [409] * (trouble == LATE))
            is_bound = trouble in {LOST, 409} or (
                step != "lock" and trouble in {REFUSED, LATE, 500, 503}
            )
            assert (said == "") is is_bound
            await _goes_on(here, args)

    asyncio.run(play())


@pytest.mark.parametrize("trouble", [REFUSED, LATE, 409, 500, 503])
@pytest.mark.parametrize("step", ["annotations", "binding"])
def test_one_request_fails_again_and_again(step: str, trouble: Trouble) -> None:
    """It is given up, all is taken back, and what arrives afterwards is refused."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            here.way.plan = [(*_STEPS[step], trouble)] * 3
            assert _SAID[step] in await here.binder.bind(args)
            assert not here.way.plan
            await _is_clean(here)
            assert here.value(
                "hami_scheduler_bind_rollbacks_total",
                phase="bind",
                device_type="NVIDIA",
                failure_reason="binding",
            )
            if trouble == LATE and step == "annotations":
                here.state.reserve(
                    reservation("p", uid=args.pod_uid, version=here.versions[args.pod_uid])
                )
                assert await here.binder.bind(args) == ""
            assert here.way.deliver() == [409] * 3 * (trouble == LATE)
            await _goes_on(here, args)

    asyncio.run(play())


@pytest.mark.parametrize("also", ["", "taking back"])
@pytest.mark.parametrize("trouble", [LOST, REFUSED, LATE, 500])
@pytest.mark.parametrize("step", ["annotations", "binding"])
def test_nothing_can_be_read_after_a_failure(step: str, trouble: Trouble, also: str) -> None:
    """Devices and lock are kept, and the pod is neither bound again nor given to others."""

    async def play() -> None:
        async with scene(settle_s=0.1) as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            here.way.plan = [(*_STEPS[step], trouble), (*_POD, REFUSED), (*_POD, REFUSED)]
            # A GET on a connection that was cut is tried again.
            here.way.plan += [(*_POD, 500), (*_POD, 500)]
            if also:
                here.way.plan += [(*_ANNOTATIONS, NOTHING)] * (step == "binding")
                here.way.plan += [(*_ANNOTATIONS, 500)]
            assert _SAID[step] in await here.binder.bind(args)
            assert here.binder.busy == {args.pod_uid}
            assert args.pod_uid in here.state.reservations
            assert args.pod_uid in here.state.confirmed
            lock = await here.lock_of()
            assert lock is not None
            assert " already" in await here.binder.bind(args)
            await _settled(here)
            if step == "binding" and trouble == LOST:
                await _is_whole(here, args)
            else:
                await _is_clean(here)
            late = here.way.deliver()
            here.way.plan = []
            if late == [200]:
                assert step == "annotations"
            else:
                assert late == [409] * (trouble == LATE)
            await _goes_on(here, args)

    asyncio.run(play())


def test_a_binding_arrives_while_nobody_knows() -> None:
    """The pod is found bound at the next look, and keeps all that it has."""

    async def play() -> None:
        async with scene(settle_s=0.2) as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            here.way.plan = [(*_BINDING, LATE), (*_POD, 500), (*_POD, 500)]
            assert await here.binder.bind(args)
            assert here.way.deliver() == [201]
            await _settled(here)
            await _is_whole(here, args)

    asyncio.run(play())


@pytest.mark.parametrize("trouble", _TROUBLES)
def test_the_lock_cannot_be_released(trouble: Trouble) -> None:
    """It is released at the next try, or its pod takes it over when that is bound after all."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            here.way.plan = [(*_BINDING, 403), (*_LOCK, NOTHING), (*_LOCK, trouble)]
            assert await here.binder.bind(args)
            await _is_clean(here, unlocked=trouble != 404)
            here.way.deliver()
            await _goes_on(here, args)

    asyncio.run(play())


def test_a_lock_that_stays_is_taken_over() -> None:
    """The API server refused each release; its pod goes, and the next one waits no longer."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            releases = [(*_LOCK, 500)] * 5
            here.way.plan = [(*_BINDING, 403), (*_LOCK, NOTHING), *releases]
            assert await here.binder.bind(args)
            await _is_clean(here, unlocked=False)
            assert await here.lock_of()
            await asyncio.to_thread(here.client.delete, pods("default", "p"))
            following = await here.reserved("q")
            assert await here.binder.bind(following) == ""
            await _is_whole(here, following)

    asyncio.run(play())


@pytest.mark.parametrize("case", ["it arrives late", "it is not released"])
def test_a_lock_that_was_given_up_holds_nobody(case: str) -> None:
    """The next pod takes it over at once, though the one that it names is still there."""

    async def play() -> None:
        async with scene(lock_wait_s=0.5) as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            if case == "it arrives late":
                here.way.plan = [(*_LOCK, LATE)]
            else:
                here.way.plan = [(*_BINDING, 403), (*_LOCK, NOTHING), *[(*_LOCK, 500)] * 5]
            assert await here.binder.bind(args)
            here.way.deliver()
            assert (await here.lock_of() or "").endswith(",default,p")
            following = await here.reserved("q")
            assert await here.binder.bind(following) == ""
            await _is_whole(here, following)
            here.state.reserve(reservation("p", uid=args.pod_uid))
            assert "node lock contention" in await here.binder.bind(args)
            await here.remove_lock()
            here.state.reserve(reservation("p", uid=args.pod_uid))
            assert await here.binder.bind(args) == ""
            following = await here.reserved("r")
            assert "node lock contention" in await here.binder.bind(following)

    asyncio.run(play())


def test_a_lock_of_which_nothing_can_be_read_is_released() -> None:
    """It was written, though neither the answer nor the node could be read at first."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            here.way.plan = [(*_LOCK, LOST), (*_NODE, 500), (*_NODE, 500)]
            assert "cannot be read" in await here.binder.bind(args)
            await _is_clean(here)
            await _goes_on(here, args)

    asyncio.run(play())


def test_the_lock_of_a_pod_of_unknown_fate_is_kept() -> None:
    """However old it is: the pod may be about to start, and the plugin finds it by the lock."""

    async def play() -> None:
        async with scene(settle_s=0.6, lock_wait_s=0.2) as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            here.way.plan = [(*_BINDING, LATE), (*_POD, 500), (*_POD, 500)]
            assert await here.binder.bind(args)
            await here.set_lock(lock_value("p", age_s=40))
            assert "node lock contention" in await here.binder.bind(await here.reserved("q"))
            assert here.binder.busy == {args.pod_uid}
            assert (await here.lock_of() or "").endswith(",default,p")
            await _settled(here)

    asyncio.run(play())


def _other_leader(here: Scene, request: Request, end: tuple[str, str]) -> None:
    """Annotate the pod as another leader does, just before a request arrives."""
    if (request.method, request.path[-len(end[1]) :]) != end:
        return
    here.way.before = lambda _: None
    theirs = {"hami.io/vgpu-node": "gpu2", "hami.io/bind-time": "1"}
    body = {"metadata": {"annotations": theirs}}
    here.client.patch(pods("default", "p"), body, content_type=MERGE_PATCH)


def test_another_leader_annotates_before_the_binding() -> None:
    """The binding is for what was written here, so it is refused, and theirs stays."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            here.way.before = lambda request: _other_leader(here, request, _BINDING)
            assert "somebody else has annotated it" in await here.binder.bind(args)
            pod = await here.get("pods", "p")
            assert not pod["spec"].get("nodeName")
            assert _annotations(pod)["hami.io/vgpu-node"] == "gpu2"
            assert await here.lock_of() is None
            assert not here.state.reservations

    asyncio.run(play())


def test_the_lead_is_lost_between_the_requests() -> None:
    """The pod is not bound, and bears nothing of the try."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            loop = asyncio.get_running_loop()

            def lose(request: Request) -> None:
                if request.method == "PATCH" and request.path.endswith("/pods/p"):
                    loop.call_soon_threadsafe(here.switch.turn, "another leads")

            here.way.before = lose
            assert "another scheduler leads" in await here.binder.bind(args)
            await _is_clean(here)

    asyncio.run(play())


def test_a_pod_that_changed_since_it_was_asked_about_is_looked_at() -> None:
    """Its version is a condition; keys of schedulers that stand on it by then go with the write."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            uid = await here.create_pod("p")
            version = (await here.get("pods", "p"))["metadata"]["resourceVersion"]
            forged = {"hami.io/vgpu-mig-allocations": "x", "hami.io/dcu-devices-allocated": "y"}
            for key, text in (*forged.items(), ("team.example/kept", "z")):
                await asyncio.to_thread(
                    here.client.patch,
                    pods("default", "p"),
                    {"metadata": {"annotations": {key: text}}},
                    content_type=MERGE_PATCH,
                )
            here.state.reserve(reservation("p", uid=uid, version=version))
            args = BindingArgs(pod_name="p", pod_namespace="default", pod_uid=uid, node="gpu1")
            assert await here.binder.bind(args) == ""
            written = _annotations(await here.get("pods", "p"))
            assert written.keys() == _OWNED | {"team.example/kept"}

    asyncio.run(play())


def test_devices_that_are_gone_by_then_are_not_written() -> None:
    """The node was made anew while the binding waited for its lock."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            here.state.objections[args.pod_uid] = "GPU-0 is not there any more"
            assert "GPU-0 is not there any more" in await here.binder.bind(args)
            await _is_clean(here)

    asyncio.run(play())
