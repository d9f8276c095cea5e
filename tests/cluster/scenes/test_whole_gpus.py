"""Scenes with whole GPUs and MIG devices, which nothing limits and every release can give."""

import pytest

from gpu import names
from tests.cluster.scenes.expectations import A10, T4, expect_partition, expect_whole
from tests.cluster.scenes.manifests import claim, example, pod, request
from tests.cluster.scenes.stage import Stage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.mark.scene("a whole GPU")
def test_whole_gpu(stage: Stage) -> None:
    """A container with a whole GPU has that GPU's node and nothing of HAMi-core."""
    report = stage.run(*example("whole-gpu", node=stage.node))["whole-gpu"]
    (given,) = stage.given("whole-gpu")
    expect_whole(report, given.product)


@pytest.mark.scene("a whole GPU is not given twice")
def test_whole_gpu_is_not_given_twice(stage: Stage) -> None:
    """A second claim for the same GPU waits until the first one's pod has ended."""
    asked = request(device_class=names.CLASS_WHOLE, product=A10)
    stage.run(claim("holds", asked), pod("holds", {"gpu": "holds"}, node=stage.node))
    stage.create(claim("waits", asked), pod("waits", {"gpu": "waits"}, node=stage.node))
    assert "cannot allocate all claims" in stage.pending("waits")
    stage.delete("Pod", "holds")
    stage.delete("ResourceClaim", "holds")
    expect_whole(stage.report("waits"), A10)


@pytest.mark.scene("one whole-GPU claim in two pods")
def test_whole_gpu_in_two_pods(stage: Stage) -> None:
    """Both pods of a claim have the GPU; it is given back when the second has ended."""
    pods = [pod(name, {"gpu": "shared"}, node=stage.node) for name in ("one", "two")]
    asked = request(device_class=names.CLASS_WHOLE, product=T4)
    for report in stage.run(claim("shared", asked), *pods).values():
        expect_whole(report, T4)
    stage.delete("Pod", "one")
    assert len(stage.driver.specs()) == 1
    stage.delete("Pod", "two")
    assert not stage.driver.specs()


@pytest.mark.scene("a static MIG device")
def test_mig_device(stage: Stage) -> None:
    """A container with a MIG device has its GPU's node and its own two capabilities alone."""
    objects = example("mig-device", node=stage.node)
    report = stage.run(*objects)["mig-device"]
    (given,) = stage.given("mig-device")
    expect_partition(report, stage.driver.capabilities(given.uuid))


@pytest.mark.scene("two pods on two MIG devices of one GPU")
def test_two_mig_devices(stage: Stage) -> None:
    """Two pods have two partitions of one GPU, with different capabilities."""
    objects = example("mig-device", node=stage.node)
    second = {**objects[-1], "metadata": {"name": "second"}}
    reports = stage.run(*objects, second)
    assert len({frozenset(each.devices) for each in reports.values()}) == 2
    (one,), (other,) = (stage.given(name) for name in reports)
    assert one.uuid != other.uuid
