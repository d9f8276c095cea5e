"""Scenes of a node that serves kubelet's device plugins: the way of clusters without claims."""

from collections.abc import Iterator
from typing import Final

import pytest

from kube import paths
from kube.client import MERGE_PATCH
from kube.errors import ForbiddenError, InvalidError
from tests.cluster.scenes.cardforms import FORMS, VISIBLE, play
from tests.cluster.scenes.cards import (
    DRY_RUN,
    Cards,
    cards_of,
    expect_given,
    pod,
    rights,
)
from tests.cluster.scenes.driver import Driver
from tests.cluster.scenes.expectations import A10, L4, T4
from tests.cluster.scenes.extenders import Extenders, running_extender
from tests.cluster.scenes.manifests import Object
from tests.cluster.scenes.stage import Stage
from tests.cluster.scenes.webhooks import running_webhooks
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

_ONE: Final = {"gpu": "1", "gpumem": "3000", "gpucores": "30"}


@pytest.fixture(scope="module")
def extenders(driver: Driver) -> Iterator[Extenders]:
    """Return the extender and its scheduler, at work; agents have the device plugin's rights."""
    cluster, identity = driver.cluster, driver.first.identity
    with rights(cluster, identity), running_extender(cluster) as extenders:
        yield extenders


@pytest.fixture
def cards(stage: Stage, extenders: Extenders) -> Iterator[Cards]:
    """Return the node with a kubelet, serving the device plugin."""
    with cards_of(stage) as cards:
        yield cards


@pytest.mark.scene("a node offers its GPUs by the device plugin")
def test_registration(cards: Cards) -> None:
    """Kubelet has the devices and the Node's annotation says the same, with the chart's rights."""
    types = {each["type"] for each in cards.cards()}
    assert types == {f"NVIDIA-{T4}", A10, L4, "NVIDIA H100 80GB HBM3"}
    assert cards.offered() == sum(each["count"] for each in cards.cards())
    eventually(lambda: cards.stage.node_says("MIG"))


@pytest.mark.scene("an agent annotates its own node and the pods on it alone")
def test_own_node(cards: Cards) -> None:
    """What RBAC allows on all nodes and pods the policy allows on the agent's own, and no more."""
    stage, other = cards.stage, cards.driver.cluster.node_names[1]
    stage.create(pod("own", _ONE, node=cards.node), pod("far", None, node=other))
    stage.report("own")
    stage.scheduled("far")
    client = cards.driver.client_of(cards.node)
    note = {"metadata": {"annotations": {"gpuslice.test/any": "any"}}}
    label = {"metadata": {"labels": {"gpuslice.test/any": "any"}}}

    def patch(path: str, body: Object) -> None:
        client.patch(path, body, content_type=MERGE_PATCH, params=DRY_RUN)

    own_node, own_pod = paths.nodes(cards.node), paths.pods("default", "own")
    for path in (own_node, own_pod):
        patch(path, note)
        with pytest.raises((ForbiddenError, InvalidError), match="changes annotations only"):
            patch(path, label)
    with pytest.raises((ForbiddenError, InvalidError), match="changes annotations only"):
        patch(own_node, {"spec": {"unschedulable": True}})
    said = f"the node agent of {cards.node} writes on that node and its pods only"
    for path in (paths.nodes(other), paths.pods("default", "far")):
        with pytest.raises((ForbiddenError, InvalidError), match=said):
            patch(path, note)
    for path in (paths.nodes(cards.node, "status"), paths.pods("default", "own", "status")):
        with pytest.raises(ForbiddenError):
            patch(path, note)
    client.close()


@pytest.mark.scene("the device plugin answers in every form")
def test_every_form(cards: Cards) -> None:
    """Environment, mounts and device nodes are in each container, by every strategy there is."""
    for number, form in enumerate(FORMS):
        play(cards, f"form-{number}", form)


@pytest.mark.scene("legacy limits become a running pod by the device plugin")
def test_legacy_pod(cards: Cards) -> None:
    """Through webhook, scheduler, extender and kubelet, whose part nobody had to write."""
    wanted = pod("older", {"gpumem": "3000", "gpucores": "30"}, node=cards.node, use_gputype="A10")
    del wanted["spec"]["schedulerName"]
    with running_webhooks(cards.driver.cluster, flags={"--mode": "hami"}):
        cards.stage.create(wanted)
        report = cards.stage.report("older")
        expect_given(report, {A10: ("3000m", "30")}, with_nodes=False)
        assert report.env[VISIBLE] == cards.card("A10")["id"]
        cards.stage.delete("Pod", "older")


@pytest.mark.scene("metrics of the device plugin's containers")
def test_metrics(cards: Cards) -> None:
    """They name pod and container by what kubelet says at its socket, and go with the pod."""
    stage, source = cards.stage, 'gpuslice_monitor_source_success{source="pod_resources"} 1.0'
    two = {"gpu": "2", "gpumem": "1k"}
    stage.create(pod("measured", _ONE, two, node=cards.node, use_gputype="T4,A10"))
    stage.report("measured", "c1")
    eventually(lambda: (cards.held("measured", "c0"), cards.held("measured", "c1")) == (1, 2))
    assert source in cards.driver.first.metrics().splitlines()
    for container, mib, uuid in (("c0", 3000, ""), ("c1", 1000, cards.card("A10")["id"])):
        labels = ('pod="measured"', f'container="{container}"', uuid)
        (granted,) = cards.series("gpuslice_share_memory_granted_bytes{", *labels)
        assert float(granted.split()[-1]) == mib * 2**20
    stage.delete("Pod", "measured")
    cards.expect_nothing_left()
    assert source in cards.driver.first.metrics().splitlines()
