"""All components of the last release without `v1`: they speak v1beta1 among themselves.

Its scheduler, controllers and kubelet work once the feature gate and the version are switched on;
kubelet calls the plugin by the v1beta1 of its own API too.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu import names
from kube.config import kubeconfig
from kube.draversions import VersionedClient
from tests.cluster.components import Options
from tests.cluster.conftest import minor_of
from tests.cluster.scenes.agents import STOP_S, lay_out, start_agent
from tests.cluster.scenes.driver import GPUS, Driver, apply_chart
from tests.cluster.scenes.expectations import A10, expect_whole
from tests.cluster.scenes.manifests import claim, pod, request
from tests.cluster.scenes.stage import Stage
from tests.cluster.up import bring_up
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

_GROUP = "resource.k8s.io"


@pytest.fixture
def stage(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[Stage]:
    """Return a stage on a cluster of the older release, whose client speaks v1 all the same."""
    if minor_of(request.config) != "1.33":
        pytest.skip("this release has v1")
    options = Options(
        minor="1.33",
        gates={"DynamicResourceAllocation": True},
        apis=(f"{_GROUP}/v1beta1", f"{_GROUP}/v1beta2"),
    )
    with bring_up(session_folder / "older", options) as cluster, cluster.network():
        client = VersionedClient(kubeconfig(str(cluster.kubeconfig)), user_agent="gpuslice-tests")
        apply_chart(client)
        (node,) = cluster.node_names
        agent = start_agent(cluster, lay_out(cluster, 0, node, GPUS[0]))
        made = Stage(client, Driver(cluster=cluster, agents={node: agent}))
        try:
            eventually(agent.ready)
            yield made
        finally:
            agent.process.terminate()
            agent.process.wait(STOP_S)
            client.close()


def test_whole_gpu_of_an_older_release(stage: Stage) -> None:
    """A container has a whole GPU, nobody else gets it meanwhile, and then the next one does."""
    asked = request(device_class=names.CLASS_WHOLE, product=A10)
    stage.create(claim("holds", asked), pod("holds", {"gpu": "holds"}, node=stage.node))
    expect_whole(stage.report("holds"), A10)
    stage.create(claim("waits", asked), pod("waits", {"gpu": "waits"}, node=stage.node))
    assert "cannot allocate all claims" in stage.pending("waits")
    stage.delete("Pod", "holds")
    stage.delete("ResourceClaim", "holds")
    expect_whole(stage.report("waits"), A10)
    stage.delete("Pod", "waits")
    assert not stage.driver.specs()
