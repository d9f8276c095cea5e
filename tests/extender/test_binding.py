"""`/bind` against a simulated API server."""

import asyncio
import json

from extender.wire import BindingArgs
from kube.objects import JsonObject
from tests.extender.locking import LOCK, Scene, lock_value, scene, until
from tests.extender.standins import reservation
from tests.patience import eventually

_OWNED = (
    "hami.io/vgpu-devices-to-allocate",
    "hami.io/vgpu-devices-allocated",
    "hami.io/vgpu-node",
    "hami.io/vgpu-time",
    "hami.io/bind-phase",
    "hami.io/bind-time",
)


def _annotations(pod: JsonObject) -> dict[str, str]:
    return pod["metadata"].get("annotations") or {}


async def _is_clean(here: Scene, name: str = "p") -> None:
    """Assert that nothing of a binding is left."""
    pod = await here.get("pods", name)
    assert not _annotations(pod).keys() & set(_OWNED)
    assert "hami.io/vgpu-node" not in (pod["metadata"].get("labels") or {})
    assert not pod["spec"].get("nodeName")
    assert await here.lock_of() is None
    assert not here.state.reservations


def test_a_binding_is_three_requests() -> None:
    """The lock, all annotations and the label at once, the binding."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            before = len(here.writes())
            assert await here.binder.bind(args) == ""
            assert here.writes()[before:] == [
                "patch /api/v1/nodes/gpu1",
                "patch /api/v1/namespaces/default/pods/p",
                "create /api/v1/namespaces/default/pods/p/binding",
            ]
            pod = await here.get("pods", "p")
            assert pod["spec"]["nodeName"] == "gpu1"
            assert pod["metadata"]["labels"] == {"hami.io/vgpu-node": "gpu1"}
            written = _annotations(pod)
            assert set(written) == set(_OWNED)
            assert written["hami.io/bind-phase"] == "allocating"
            assert written["hami.io/vgpu-time"].isdecimal()
            assert written["hami.io/vgpu-devices-to-allocate"] == "GPU-0,NVIDIA,1000,10:;"
            assert (await here.lock_of() or "").endswith(",default,p")
            assert set(here.state.confirmed) == {args.pod_uid}
            assert here.value(
                "hami_scheduler_allocations_total", phase="bind", device_type="NVIDIA"
            )

    asyncio.run(play())


def test_vendors_without_a_lock_are_bound_by_two() -> None:
    """Nobody waits, and the node is left alone."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p", locks=frozenset())
            before = len(here.writes())
            assert await here.binder.bind(args) == ""
            assert len(here.writes()) == before + 2
            assert await here.lock_of() is None

    asyncio.run(play())


def test_a_long_node_name_is_no_label() -> None:
    """The API server would refuse the whole PATCH."""

    async def play() -> None:
        async with scene() as here:
            node = "n" * 63 + ".example"
            await here.create_node(node)
            assert await here.binder.bind(await here.reserved("p", node)) == ""
            pod = await here.get("pods", "p")
            assert _annotations(pod)["hami.io/vgpu-node"] == node

    asyncio.run(play())


def _other(args: BindingArgs, **changed: str) -> BindingArgs:
    said = {
        "pod_name": args.pod_name,
        "pod_namespace": args.pod_namespace,
        "pod_uid": args.pod_uid,
        "node": args.node,
        **changed,
    }
    return BindingArgs(**said)


def test_what_was_not_decided_is_not_bound() -> None:
    """Another pod, another node, no reservation: nothing is written for any."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            await here.create_node("gpu2")
            args = await here.reserved("p")
            await here.reserved("q")
            plain = await here.create_pod("plain")
            before = len(here.writes())
            refusals = {
                'pod "zz" not found': _other(args, pod_name="zz", pod_uid="u-zz"),
                "is another one by now": _other(args, pod_uid="u-old"),
                "is not gpu1, which was chosen": _other(args, node="gpu2"),
                "nothing is reserved for pod default/plain": _other(
                    args, pod_name="plain", pod_uid=plain
                ),
                "is another one by now: ": _other(args, pod_name="q"),
            }
            for text, asked in refusals.items():
                assert text in await here.binder.bind(asked)
            assert len(here.writes()) == before
            assert await here.binder.bind(args) == ""

    asyncio.run(play())


def test_a_bound_pod_is_not_bound_again() -> None:
    """Not even to the same node."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            assert await here.binder.bind(args) == ""
            await until(lambda: here.state.pods["default", "p"].node)
            assert "is bound to node gpu1 already" in await here.binder.bind(args)

    asyncio.run(play())


def test_a_node_that_is_gone_frees_what_was_reserved_there() -> None:
    """The pod is filtered again."""

    async def play() -> None:
        async with scene() as here:
            args = await here.reserved("p", "gone")
            assert await here.binder.bind(args) == 'node "gone" not found'
            assert not here.state.reservations

    asyncio.run(play())


def test_a_pod_that_was_made_anew_is_left_alone() -> None:
    """The watch may not have shown it yet: the API server compares the UID."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            old = here.state.pods["default", "p"]
            await asyncio.to_thread(here.client.delete, "/api/v1/namespaces/default/pods/p")
            await until(lambda: ("default", "p") not in here.state.pods)
            await here.create_pod("p")
            here.state.put_pod(old)
            assert "cannot be annotated" in await here.binder.bind(args)
            await _is_clean(here)

    asyncio.run(play())


def test_losing_the_lead_ends_bindings_that_wait() -> None:
    """The next leader knows nothing of them."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            await here.create_pod("owner")
            await here.set_lock(lock_value("owner"))
            binding = asyncio.create_task(here.binder.bind(await here.reserved("p")))
            await asyncio.sleep(0.05)
            here.switch.turn("another leads")
            assert "another leads" in await binding
            pod = await here.get("pods", "p")
            assert not _annotations(pod)

    asyncio.run(play())


def test_a_follower_binds_nothing() -> None:
    """Whatever it had reserved."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            here.switch.turn("another leads")
            here.state.reserve()
            assert await here.binder.bind(args) == "another leads"

    asyncio.run(play())


def test_waiting_for_a_lock_has_an_end() -> None:
    """It comes before kube-scheduler's own, in HAMi's words, and the devices are free again."""

    async def play() -> None:
        async with scene(lock_wait_s=0.2) as here:
            await here.create_node("gpu1")
            await here.create_pod("owner")
            await here.set_lock(lock_value("owner"))
            args = await here.reserved("p")
            text = await here.binder.bind(args)
            assert text == "node gpu1 has been locked within 5m0s: node lock contention"
            assert not here.state.reservations
            assert (await here.lock_of() or "").endswith(",default,owner")

    asyncio.run(play())


def test_a_pod_that_was_filtered_again_keeps_its_new_reservation() -> None:
    """The binding of the old one ends without touching it."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            await here.create_node("gpu2")
            await here.create_pod("owner")
            await here.set_lock(lock_value("owner"))
            args = await here.reserved("p")
            binding = asyncio.create_task(here.binder.bind(args))
            await asyncio.sleep(0.05)
            newer = reservation("p", "gpu2", uid=args.pod_uid)
            here.state.reserve(newer)
            assert "is void" in await binding
            assert here.state.reservation(args.pod_uid) is newer
            assert await here.binder.bind(_other(args, node="gpu2")) == ""

    asyncio.run(play())


def test_forty_pods_of_one_node_are_bound_one_after_the_other() -> None:
    """None fails, though they all come at once; a plugin takes the lock away each time."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            asked = [await here.reserved(f"p{each}") for each in range(40)]

            async def plugin() -> None:
                while True:
                    await until(lambda: any(here.state.nodes["gpu1"].locks.values()))
                    lock = here.state.nodes["gpu1"].locks
                    name = next(iter(lock.values())).split(",")[2]
                    await until(lambda name=name: here.state.pods["default", name].node)  # type: ignore[misc]
                    await here.remove_lock()
                    await until(lambda lock=lock: here.state.nodes["gpu1"].locks != lock)  # type: ignore[misc]

            removing = asyncio.create_task(plugin())
            answers = await asyncio.gather(*(here.binder.bind(each) for each in asked))
            removing.cancel()
            assert answers == [""] * 40
            calls = sum(
                here.value("gpuslice_extender_api_calls_total", call=call)
                for call in ("patch node", "patch pod", "bind pod", "get node", "get pod")
            )
            assert calls == 120

    asyncio.run(play())


def test_events_say_what_became_of_it() -> None:
    """As HAMi's do, by the scheduler's name, and off the path; of success only where wanted."""

    async def play() -> None:
        async with scene() as here:
            await here.create_node("gpu1")
            assert await here.binder.bind(await here.reserved("p")) == ""
            assert not here.value("gpuslice_extender_events_total", reason="BindingSucceed")
        async with scene(tells_success=True) as here:
            await here.create_node("gpu1")
            args = await here.reserved("p")
            assert await here.binder.bind(_other(args, node="gpu2"))
            assert await here.binder.bind(args) == ""

            def events() -> dict[str, JsonObject]:
                items, _ = here.server.run(here.server.server.api.list("events", "default"))
                return {each["reason"]: each for each in items}

            await asyncio.to_thread(eventually, lambda: len(events()) == 2)
            said = events()
            assert (
                said["BindingSucceed"]["message"] == "Successfully binding node [gpu1] to default/p"
            )
            assert said["BindingFailed"]["type"] == "Warning"
            assert said["BindingSucceed"]["source"]["component"] == "hami-scheduler"
            assert json.dumps(said).count(LOCK) == 0

    asyncio.run(play())
