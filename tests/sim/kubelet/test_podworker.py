"""Pods on a node: containers in order, statuses, events, ends of all kinds."""

import asyncio
from typing import Any

from sim.kubelet.podspec import EXIT_AFTER
from tests.sim.kubelet.scene import NODE, PREPARE_FAILED, Scene, scene, until


async def stored(node: Scene, name: str) -> Any:
    """Return a stored pod."""
    return await node.api.get("pods", name, "default")


def test_a_pod_without_claims_runs() -> None:
    """No driver is needed, and the status says what kubelet's would."""

    async def play() -> None:
        async with scene() as node:
            await node.pod("pod")
            await node.reaches("pod", "Running")
            status = (await stored(node, "pod"))["status"]
            conditions = {one["type"]: one["status"] for one in status["conditions"]}
            assert conditions == {
                "PodScheduled": "True",
                "PodReadyToStartContainers": "True",
                "Initialized": "True",
                "ContainersReady": "True",
                "Ready": "True",
            }
            assert status["podIP"].startswith("10.244.")
            assert status["containerStatuses"][0]["ready"] is True
            assert "running" in status["containerStatuses"][0]["state"]

    asyncio.run(play())


def test_init_containers_end_before_the_app_starts() -> None:
    """Init containers have ended when the app runs; a sidecar runs on."""

    async def play() -> None:
        async with scene() as node:
            inits = [{"name": "init"}, {"name": "side", "restartPolicy": "Always"}]
            for container in inits:
                container["image"] = "image"
            pod = await node.pod("pod", initContainers=inits)
            await node.reaches("pod", "Running")
            uid = pod["metadata"]["uid"]
            found = [(one.container, one.state) for one in node.runtime.containers()]
            assert found == [("init", "exited"), ("side", "running"), ("app", "running")]
            assert all(one.pod.uid == uid for one in node.runtime.containers())
            statuses = (await stored(node, "pod"))["status"]["initContainerStatuses"]
            assert [one["ready"] for one in statuses] == [True, True]

    asyncio.run(play())


def test_a_pod_may_complete() -> None:
    """Containers that end unprepare the claim, then the pod has succeeded and stays."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            uid = await node.ready_claim("claim")
            pod = await node.pod(
                "pod", "claim", restartPolicy="Never", annotations={EXIT_AFTER: "0"}
            )
            await node.reaches("pod", "Succeeded")
            assert plugin.made("unprepare") == [[uid]]
            status = (await stored(node, "pod"))["status"]["containerStatuses"][0]
            assert status["state"]["terminated"]["exitCode"] == 0
            assert status["ready"] is False
            await node.api.delete("pods", "pod", "default")
            await node.reaches("pod", None)
            await until(lambda: node.container(pod) is None)

    asyncio.run(play())


def test_a_pod_that_must_run_always_does_not_complete() -> None:
    """The annotation has no effect on a pod that would only be started again."""

    async def play() -> None:
        async with scene() as node:
            await node.pod("pod", annotations={EXIT_AFTER: "0"})
            await node.reaches("pod", "Running")
            await asyncio.sleep(0.1)
            assert await node.phase("pod") == "Running"

    asyncio.run(play())


def test_an_unresolvable_device_keeps_the_sandbox() -> None:
    """A container that cannot be made is tried again without another prepare."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            claim = await node.claim("claim")
            await node.pod("pod", "claim")
            message = await node.told("Failed", "unresolvable CDI devices")
            assert "example.com/gpu=" in message
            waiting = (await stored(node, "pod"))["status"]["containerStatuses"][0]["state"]
            assert waiting["waiting"]["reason"] == "CreateContainerError"
            node.spec_file(claim["metadata"]["uid"])
            await node.reaches("pod", "Running")
            assert len(plugin.made("prepare")) == 1

    asyncio.run(play())


def test_a_repeated_failure_is_one_event() -> None:
    """The same message is counted, not written again."""

    async def play() -> None:
        async with scene() as node:
            await node.claim("claim")
            pod = await node.pod("pod", "claim")
            await node.told(PREPARE_FAILED, "is not registered")

            async def count() -> int:
                events, _ = await node.api.list("events")
                assert len(events) == 1
                assert events[0]["involvedObject"]["uid"] == pod["metadata"]["uid"]
                assert events[0]["source"] == {"component": "kubelet", "host": NODE}
                return int(events[0]["count"])

            async with asyncio.timeout(20):
                while await count() < 3:  # noqa: ASYNC110 - the server is polled
                    await asyncio.sleep(0.01)

    asyncio.run(play())


def test_a_forced_deletion_takes_everything_down() -> None:
    """A pod whose object is gone is stopped and its claims are unprepared."""

    async def play() -> None:
        async with scene() as node:
            plugin, uid, pod = await node.running_pod()
            await node.api.delete("pods", "pod", "default", grace_period_s=0)
            await until(lambda: plugin.made("unprepare") == [[uid]])
            await until(lambda: node.container(pod) is None)

    asyncio.run(play())


def test_a_pod_that_never_started_can_be_deleted() -> None:
    """A pod that waits for a driver goes when it is deleted."""

    async def play() -> None:
        async with scene() as node:
            await node.claim("claim")
            await node.pod("pod", "claim")
            await node.told(PREPARE_FAILED, "is not registered")
            await node.api.delete("pods", "pod", "default")
            await node.reaches("pod", None)

    asyncio.run(play())


def test_claim_statuses_wake_a_waiting_pod() -> None:
    """A generated claim is used once the pod's status names it, and must be the pod's own."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            body = {
                "metadata": {"name": "pod", "namespace": "default"},
                "spec": {
                    "containers": [
                        {"name": "app", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
                    ],
                    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}],
                },
            }
            pod = await node.api.create("pods", body)
            await node.api.bind("pod", "default", node=NODE)
            await node.told(PREPARE_FAILED, "not created yet")
            claim = await node.claim("generated", owner=pod)
            node.spec_file(claim["metadata"]["uid"])
            await node.reserve("generated", pod)
            names = [{"name": "gpu", "resourceClaimName": "generated"}]
            patch = {"status": {"resourceClaimStatuses": names}}
            await node.api.patch("pods", "pod", patch, namespace="default", subresource="status")
            await node.reaches("pod", "Running")
            assert plugin.made("prepare") == [[claim["metadata"]["uid"]]]
            # Kubelet's own writes have left the names alone.
            assert (await stored(node, "pod"))["status"]["resourceClaimStatuses"] == names

    asyncio.run(play())


def test_a_foreign_claim_cannot_pass_as_generated() -> None:
    """A claim that the pod does not own is refused where a generated one is meant."""

    async def play() -> None:
        async with scene() as node:
            body = {
                "metadata": {"name": "pod", "namespace": "default"},
                "spec": {
                    "containers": [{"name": "app", "image": "i"}],
                    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}],
                },
            }
            pod = await node.api.create("pods", body)
            await node.claim("foreign")
            await node.reserve("foreign", pod)
            names = [{"name": "gpu", "resourceClaimName": "foreign"}]
            patch = {"status": {"resourceClaimStatuses": names}}
            await node.api.patch("pods", "pod", patch, namespace="default", subresource="status")
            await node.api.bind("pod", "default", node=NODE)
            await node.told(PREPARE_FAILED, "is not owned by pod")

    asyncio.run(play())


def test_a_reboot_prepares_again_and_counts_a_restart() -> None:
    """Without sandboxes kubelet prepares again; containers count one restart more."""

    async def play() -> None:
        async with scene() as node:
            plugin, uid, pod = await node.running_pod()
            await node.kubelet.stop()
            node.runtime.reset()
            await node.kubelet.start()
            await until(lambda: node.container(pod) is not None)
            assert plugin.made("prepare") == [[uid], [uid]]
            view = node.container(pod)
            assert view is not None
            assert view.restart_count == 1

    asyncio.run(play())


def test_the_node_is_there_and_ready() -> None:
    """Kubelet registers its node with the usual labels, again and again."""

    async def play() -> None:
        async with scene() as node:
            await node.kubelet.restart()
            found = await node.api.get("nodes", NODE)
            assert found["metadata"]["labels"]["kubernetes.io/hostname"] == NODE
            ready = {one["type"]: one["status"] for one in found["status"]["conditions"]}
            assert ready == {"Ready": "True"}

    asyncio.run(play())
