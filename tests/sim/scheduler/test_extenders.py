"""A scheduler asks its extenders as kube-scheduler does."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sim.apiserver.server import ApiServer
from sim.scheduler.allocator import Allocator
from sim.scheduler.configuration import read_configuration
from sim.scheduler.extender_policy import PolicyError, read_policies
from sim.scheduler.scheduler import Scheduler
from tests.sim.scheduler.extender_server import Answer, Extender, answering, echoing, keeping
from tests.sim.scheduler.scene import Json, Scene, scheduling

COUNT = "example.com/gpu"
MANAGED = [{"name": COUNT, "ignoredByScheduler": True}]


def _played(
    scenario: Callable[[Scene, Extender], Coroutine[Any, Any, None]],
    policy: Json,
    **answers: Answer,
) -> None:
    """Run *scenario* on three nodes with one extender, called by *policy*."""

    async def play() -> None:
        server = ApiServer("1.35")
        async with (
            answering(**answers) as extender,
            scheduling(server, "1.35", [extender.policy(**policy)]) as scene,
        ):
            for name in ("a", "b", "c"):
                await scene.api.create("nodes", {"metadata": {"name": name}})
            await scenario(scene, extender)

    asyncio.run(play())


async def _add(scene: Scene, name: str, **limits: str) -> None:
    resources = {"limits": {key.replace("_", "/"): text for key, text in limits.items()}}
    container = {"name": "main", "image": "none", "resources": resources}
    await scene.add_pod(name, {"containers": [container]})


async def _add_gpu(scene: Scene, name: str) -> None:
    await _add(scene, name, **{COUNT.replace("/", "_"): "1"})


def test_extender_chooses_among_the_nodes_that_are_left() -> None:
    """A pod goes where the extender says; it is asked with the pod and the names alone."""

    async def scenario(scene: Scene, extender: Extender) -> None:
        await scene.api.patch("nodes", "c", {"spec": {"unschedulable": True}})
        await _add_gpu(scene, "p")
        assert await scene.bound("p") == "b"
        verb, said = extender.asked[-1]
        assert verb == "filter"
        assert said["Pod"]["metadata"]["name"] == "p"
        assert (said["NodeNames"], said["Nodes"]) == (["a", "b"], None)

    policy = {"filterVerb": "filter", "nodeCacheCapable": True, "managedResources": MANAGED}
    _played(scenario, policy, filter=keeping("b"))


def test_nodes_are_sent_to_one_without_a_cache() -> None:
    """Without `nodeCacheCapable` whole nodes go out, and nodes come back; names do not count."""

    async def scenario(scene: Scene, extender: Extender) -> None:
        await _add_gpu(scene, "p")
        assert await scene.bound("p") == "c"
        _, said = extender.asked[-1]
        assert [node["metadata"]["name"] for node in said["Nodes"]["items"]] == ["a", "b", "c"]
        assert said["NodeNames"] is None

    def answer(_: Json) -> Json:
        nodes = {"items": [{"metadata": {"name": "c"}}]}
        return {"nodes": nodes, "NodeNames": ["a"]}

    _played(scenario, {"filterVerb": "filter", "managedResources": MANAGED}, filter=answer)


def test_pods_without_managed_resources_are_not_its_concern() -> None:
    """An extender hears only of pods that ask for what it manages, also in init containers."""

    async def scenario(scene: Scene, extender: Extender) -> None:
        await _add(scene, "plain")
        assert await scene.bound("plain") == "a"
        assert not extender.asked
        resources = {"requests": {COUNT: "1"}, "limits": {COUNT: "1"}}
        init = [{"name": "first", "image": "none", "resources": resources}]
        await scene.add_pod("p", {"initContainers": init})
        assert await scene.bound("p") == "b"

    policy = {"filterVerb": "filter", "nodeCacheCapable": True, "managedResources": MANAGED}
    _played(scenario, policy, filter=keeping("b"))


def test_scheduler_counts_what_it_is_not_told_to_ignore() -> None:
    """A managed resource that no node offers is insufficient unless `ignoredByScheduler`."""

    async def scenario(scene: Scene, extender: Extender) -> None:
        await _add_gpu(scene, "p")
        assert f"Insufficient {COUNT}" in await scene.pending("p")
        assert not extender.asked

    policy = {"filterVerb": "filter", "nodeCacheCapable": True}
    _played(scenario, {**policy, "managedResources": [{"name": COUNT}]}, filter=echoing)


def test_reasons_of_an_extender_are_told() -> None:
    """Neither names nor nodes is no node; the pod says what was wrong with each, and waits."""

    async def scenario(scene: Scene, extender: Extender) -> None:
        await _add_gpu(scene, "p")
        message = await scene.pending("p", "CardInsufficientMemory")
        assert message == (
            "0/3 nodes are available: 2 1/1 CardInsufficientMemory, 1 node unregistered."
        )
        extender.answers["filter"] = echoing
        await scene.api.create("nodes", {"metadata": {"name": "d"}})
        assert await scene.bound("p") == "a"

    def answer(_: Json) -> Json:
        full = "1/1 CardInsufficientMemory"
        failed = {"a": full, "b": full, "c": "ignored, for the other map has it"}
        unresolvable = {"c": "node unregistered"}
        return {"FailedNodes": failed, "FailedAndUnresolvableNodes": unresolvable}

    policy = {"filterVerb": "filter", "nodeCacheCapable": True, "managedResources": MANAGED}
    _played(scenario, policy, filter=answer)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(keeping("z"), 'claims a filtered node "z"', id="a node it was not asked"),
        pytest.param(lambda _: {"Error": "no leader"}, "no leader", id="an error in band"),
        pytest.param(lambda _: [], "cannot unmarshal list", id="no object"),
        pytest.param(None, "code 404", id="another status than 200"),
        pytest.param(
            lambda _: {"NodeNames": ["a"], "FailedNodes": ["b"]}, "no map", id="a list of reasons"
        ),
    ],
)
def test_failure_of_an_extender(answer: Answer | None, message: str) -> None:
    """A failure keeps the pod waiting and is tried again, unless the extender is ignorable."""
    answers = {"filter": answer} if answer else {}

    async def waiting(scene: Scene, extender: Extender) -> None:
        await _add_gpu(scene, "p")
        await scene.pending("p", message)
        extender.answers["filter"] = echoing
        assert await scene.bound("p") == "a"

    async def going_on(scene: Scene, _: Extender) -> None:
        await _add_gpu(scene, "p")
        assert await scene.bound("p") == "a"

    policy = {"filterVerb": "filter", "nodeCacheCapable": True}
    _played(waiting, {**policy, "managedResources": MANAGED}, **answers)
    _played(going_on, {**policy, "ignorable": True, "managedResources": MANAGED}, **answers)


def test_slow_extender_has_failed() -> None:
    """An answer after `httpTimeout` counts for nothing."""

    async def scenario(scene: Scene, extender: Extender) -> None:
        extender.may_answer.clear()
        await _add_gpu(scene, "p")
        await scene.pending("p", "context deadline exceeded")
        extender.may_answer.set()
        assert await scene.bound("p") == "a"

    policy = {"filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "20ms"}
    _played(scenario, {**policy, "managedResources": MANAGED}, filter=echoing)


def test_scores_decide_between_nodes() -> None:
    """The node with most points wins; a failure to give points is no failure."""

    async def scenario(scene: Scene, extender: Extender) -> None:
        await _add(scene, "scored")
        assert await scene.bound("scored") == "b"
        assert [verb for verb, _ in extender.asked] == ["score"]
        extender.answers["score"] = lambda _: {"Error": "no list"}
        await _add(scene, "unscored")
        assert await scene.bound("unscored") == "a"

    def scores(_: Json) -> list[Json]:
        return [{"host": "b", "score": 7}, {"Host": "a", "Score": 6}, {"Host": "z", "Score": 10}]

    policy = {"prioritizeVerb": "score", "weight": 2, "nodeCacheCapable": True}
    _played(scenario, policy, score=scores)


def test_extender_binds_in_place_of_the_scheduler() -> None:
    """The extender is told pod, UID and node; the scheduler goes on with other pods meanwhile."""

    async def scenario(scene: Scene, extender: Extender) -> None:
        extender.may_answer.clear()
        await _add_gpu(scene, "p")
        await extender.heard.wait()
        await _add(scene, "plain")
        assert await scene.bound("plain") == "a"
        pod = await scene.get("pods", "p")
        assert "nodeName" not in pod["spec"]
        assert extender.asked == [
            (
                "bind",
                {
                    "PodName": "p",
                    "PodNamespace": "default",
                    "PodUID": pod["metadata"]["uid"],
                    "Node": "a",
                },
            )
        ]

    policy = {"bindVerb": "bind", "managedResources": MANAGED}
    _played(scenario, policy, bind=lambda _: {"Error": ""})


def test_failed_binding_is_tried_again() -> None:
    """A pod whose binding failed says so and is scheduled anew."""

    async def scenario(scene: Scene, extender: Extender) -> None:
        await _add_gpu(scene, "p")
        await scene.pending("p", "node lock contention")
        pod = await scene.get("pods", "p")
        await scene.api.bind("p", "default", node="b")
        extender.answers["bind"] = lambda _: {}
        assert await scene.bound("p") == "b"
        assert {said["PodUID"] for _, said in extender.asked} == {pod["metadata"]["uid"]}

    policy = {"bindVerb": "bind", "managedResources": MANAGED}
    _played(scenario, policy, bind=lambda _: {"Error": "node lock contention"})


def test_scheduler_binds_where_an_ignorable_binder_fails() -> None:
    """A binder that may be ignored is passed over."""

    async def scenario(scene: Scene, _: Extender) -> None:
        await _add_gpu(scene, "p")
        assert await scene.bound("p") == "a"

    _played(scenario, {"bindVerb": "bind", "ignorable": True, "managedResources": MANAGED})


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"urlPrefix": ""}], "urlPrefix"),
        ([{"urlPrefix": "http://a", "prioritizeVerb": "p"}], "positive weight"),
        ([{"urlPrefix": "http://a", "bindVerb": "b"}] * 2, "only one extender"),
        ([{"urlPrefix": "http://a", "managedResources": MANAGED}] * 2, "duplicate"),
        ([{"urlPrefix": "http://a", "managedResources": [{"name": "cpu"}]}], "invalid extended"),
        ([{"urlPrefix": "http://a", "httpTimeout": "soon"}], "duration"),
        ([{"urlPrefix": "http://a", "ignoreable": True}], "unknown field"),
    ],
)
def test_configuration_that_no_scheduler_starts_with(entries: list[Json], message: str) -> None:
    """What kube-scheduler refuses is refused."""
    with pytest.raises(PolicyError, match=message):
        read_policies(entries)


def test_durations_are_read() -> None:
    """A timeout is what Go writes; without one it is five seconds."""
    entry = {"urlPrefix": "http://a/"}
    read = read_policies([{**entry, "httpTimeout": "1m1.5s"}, entry])
    assert [policy.http_timeout_s for policy in read] == [61.5, 5.0]
    assert read[0].url_prefix == "http://a"


def test_scheduler_takes_the_pods_of_its_own_name() -> None:
    """A configuration of one profile names the pods that it schedules."""

    async def play() -> None:
        server = ApiServer("1.35")
        said = {"profiles": [{"schedulerName": "gpus"}], "extenders": []}
        scheduler = Scheduler(server.api, Allocator("1.35"), read_configuration(said))
        task = asyncio.create_task(scheduler.run())
        scene = Scene(server.api, scheduler)
        await server.api.create("nodes", {"metadata": {"name": "a"}})
        await scene.pod("foreign")
        await scene.pod("own", schedulerName="gpus")
        assert await scene.bound("own") == "a"
        assert "nodeName" not in (await scene.get("pods", "foreign"))["spec"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(play())


def test_scheduler_has_one_profile() -> None:
    """Several profiles are more than the simulation has."""
    with pytest.raises(PolicyError, match="2 profiles"):
        read_configuration({"profiles": [{}, {}]})
