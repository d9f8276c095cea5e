"""Scenes in which the control plane learns to share GPUs, and forgets it, over the same store.

The node goes on: our agent is never restarted, and containers run on what they were given.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu import names
from tests.cluster.conftest import minor_of
from tests.cluster.scenes.control_plane import Plane, change_of, running_plane
from tests.cluster.scenes.driver import devices_of
from tests.cluster.scenes.expectations import A10, T4, expect_limits, expect_whole
from tests.cluster.scenes.manifests import Object, claim, pod, request
from tests.cluster.scenes.stage import Stage, stage_of
from tests.patience import eventually

# A cluster of its own comes up in each of them, and a release may have to be built before.
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

_PATIENCE_S = 90.0


@pytest.fixture
def plane(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[Plane]:
    """Return a cluster whose control plane does not know how to share yet."""
    change = change_of(minor_of(request.config))
    with running_plane(session_folder / "upgraded", change) as made:
        yield made


def whole(name: str, product: str, *, node: str) -> tuple[Object, Object]:
    """Return a claim for all of a GPU and a pod of the same *name* that uses it."""
    asked = request(device_class=names.CLASS_WHOLE, product=product)
    return claim(name, asked), pod(name, {"gpu": name}, node=node)


def share(name: str, product: str, *, node: str) -> tuple[Object, Object]:
    """Return a claim for 1 GiB of a GPU and a pod of the same *name* that uses it."""
    asked = request(memory="1Gi", cores=20, product=product)
    return claim(name, asked), pod(name, {"gpu": name}, node=node)


def shareable(stage: Stage) -> set[str]:
    """Return the products that the node offers to several claims at once."""
    return {
        each["attributes"]["productName"]["string"]
        for each in devices_of(stage.client, stage.node)
        if each.get("allowMultipleAllocations")
    }


def container(stage: Stage, name: str) -> tuple[str, int]:
    """Return id and restarts of the pod's only container, once kubelet has said that it runs."""

    def running() -> Object | None:
        (found,) = stage.pod(name)["status"]["containerStatuses"]
        return found if "running" in found["state"] else None

    # What a container prints is there before the pod's status says that it runs.
    found = eventually(running)
    assert found is not None
    return found["containerID"], found["restartCount"]


def away(stage: Stage, name: str) -> None:
    """Delete the pod and the claim called *name*."""
    stage.delete("Pod", name)
    stage.delete("ResourceClaim", name)


def expect_join(stage: Stage) -> None:
    """Check a second pod of the claim `held`, which was allocated before the change.

    The scheduler of 1.36.3 cannot add one to a claim of 1.35: it sets the time of an allocation
    that has none, which the API server refuses.
    """
    stage.create(pod("joins", {"gpu": "held"}, node=stage.node))
    expect_whole(stage.report("joins"), T4)
    stage.delete("Pod", "joins")


@pytest.mark.scene("a control plane that learns to share")
def test_upgrade(plane: Plane) -> None:
    """A GPU held whole stays so and is not shared; the others are offered in shares, unasked."""
    with stage_of(plane.driver) as stage:
        agent = plane.driver.first
        expect_whole(stage.run(*whole("held", T4, node=stage.node))["held"], T4)
        before = container(stage, "held")
        assert not shareable(stage)

        plane.become(plane.change.after)
        eventually(lambda: {T4, A10} <= shareable(stage), _PATIENCE_S)
        eventually(agent.ready, _PATIENCE_S)
        assert container(stage, "held") == before

        stage.create(*share("waits", T4, node=stage.node))
        assert "cannot allocate all claims" in stage.pending("waits")
        expect_limits(
            stage.run(*share("shares", A10, node=stage.node))["shares"], {A10: ("1024m", "20")}
        )
        stage.create(*whole("none", A10, node=stage.node))
        assert "cannot allocate all claims" in stage.pending("none")
        if plane.change.before.minor == plane.change.after.minor:
            expect_join(stage)

        plane.replace_kubelet(plane.change.after)
        eventually(agent.ready, _PATIENCE_S)
        assert container(stage, "held") == before
        assert not stage.pod("waits")["spec"].get("nodeName")
        away(stage, "held")
        expect_limits(stage.report("waits"), {T4: ("1024m", "20")})
        assert agent.running()


@pytest.mark.scene("a control plane that forgets to share")
def test_downgrade(plane: Plane) -> None:
    """What runs goes on; a GPU with shares that is given away whole is refused by the node."""
    plane.become(plane.change.after)
    with stage_of(plane.driver) as stage:
        agent = plane.driver.first
        eventually(lambda: {T4, A10} <= shareable(stage), _PATIENCE_S)
        eventually(agent.ready, _PATIENCE_S)
        expect_whole(stage.run(*whole("held", T4, node=stage.node))["held"], T4)
        shares = {"one": A10, "two": A10}
        for name, product in shares.items():
            report = stage.run(*share(name, product, node=stage.node))[name]
            expect_limits(report, {A10: ("1024m", "20")})
        before = {name: container(stage, name) for name in ("held", *shares)}

        plane.become(plane.change.before)
        eventually(lambda: not shareable(stage), _PATIENCE_S)
        eventually(agent.ready, _PATIENCE_S)
        assert {name: container(stage, name) for name in before} == before
        stage.create(*whole("third", T4, node=stage.node))
        stage.create(*whole("wants", A10, node=stage.node))
        for name in ("third", "wants"):
            assert "cannot allocate all claims" in stage.pending(name)

        # This scheduler counts devices and not shares: with one it forgets the other.
        away(stage, "one")
        stage.scheduled("wants")
        refused = stage.told("wants", "FailedPrepareDynamicResources")
        assert "DeviceInUse" in refused
        assert "`default/two`" in refused
        assert container(stage, "two") == before["two"]
        away(stage, "two")
        expect_whole(stage.report("wants"), A10)
        assert not stage.pod("third")["spec"].get("nodeName")
        assert agent.running()
