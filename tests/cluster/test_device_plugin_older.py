"""The device plugin on a release without DRA in v1, where a node has nothing else to serve."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import RealCluster
from tests.cluster.scenes.agents import STOP_S, lay_out, start_agent
from tests.cluster.scenes.cardforms import FORMS, play
from tests.cluster.scenes.cards import Cards, expect_given, pod, rights
from tests.cluster.scenes.driver import GPUS, Driver, apply_rights
from tests.cluster.scenes.expectations import A10
from tests.cluster.scenes.extenders import running_extender
from tests.cluster.scenes.leftovers import errors_in
from tests.cluster.scenes.restarts import restart_kubelet
from tests.cluster.scenes.stage import Stage
from tests.cluster.scenes.troubles import expect_untouched
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

_LIMITS = {"gpu": "1", "gpumem": "3000", "gpucores": "30"}


@pytest.fixture
def cards(cluster: RealCluster) -> Iterator[Cards]:
    """Return the node with a kubelet, serving the device plugin."""
    if cluster.options.minor != "1.33":
        pytest.skip("newer releases have scenes")
    node = cluster.node_names[0]
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(cluster.client())
        apply_rights(client)
        host = lay_out(cluster, 0, node, GPUS[0])
        stack.enter_context(rights(cluster, host.identity))
        driver = Driver(cluster=cluster)
        driver.agents[node] = start_agent(cluster, host, flags={"--mode": "auto"})
        stack.callback(_end, driver)
        stack.enter_context(running_extender(cluster))
        made = Cards(Stage(client, driver))
        yield made
        made.expect_nothing_left()
        assert not errors_in(driver.log(node))


def _end(driver: Driver) -> None:
    driver.first.process.terminate()
    driver.first.process.wait(STOP_S)


def test_every_form_on_an_older_release(cards: Cards) -> None:
    """Containers get limits and GPUs in every form, after a restart of kubelet too."""
    for number, form in enumerate(FORMS):
        play(cards, f"form-{number}", form)
    stage = cards.stage
    stage.create(pod("kept", _LIMITS, node=cards.node, use_gputype="A10"))
    expect_given(stage.report("kept"), {A10: ("3000m", "30")}, with_nodes=True)
    registered = cards.registrations()
    restart_kubelet(cards.driver.cluster)
    eventually(lambda: cards.registrations() > registered)
    cards.eventually_offered()
    stage.create(pod("joins", _LIMITS, node=cards.node, use_gputype="A10"))
    expect_given(stage.report("joins"), {A10: ("3000m", "30")}, with_nodes=True)
    for name in ("kept", "joins"):
        expect_untouched(stage, name)
        stage.delete("Pod", name)
