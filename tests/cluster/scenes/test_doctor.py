"""Scenes of `gpuslice doctor`: what it says of a cluster and a node with the running driver."""

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from cli.main import main
from gpu.names import MODE_SHARED
from tests.cluster.scenes.driver import Driver, devices_of
from tests.cluster.scenes.manifests import Object
from tests.cluster.scenes.report import IMAGE
from tests.cluster.scenes.stage import Stage
from tests.cluster.scenes.webhooks import Webhooks, running_webhooks

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

_WELL: Final = (
    *("api-versions", "keeps-alternatives", "keeps-device-status", "kubelet-skew"),
    *("runtime-releases", "device-classes", "webhook-configured", "webhook-endpoints"),
    *("webhook-answers", "webhook-certificate", "other-daemonsets", "other-device-plugins"),
    *("other-drivers", "other-webhooks", "published-gpus", "tainted-gpus", "slice-policies"),
    *("node-locks", "claims-left", "templates-left"),
)
_OF_THE_NODE: Final = (
    *("driver-root", "device-nodes", "runtime", "runtime-cdi", "nvidia-runtime"),
    *("cdi-specs-left", "kubelet-root", "registration", "plugin-directory"),
)


@pytest.fixture(scope="module")
def webhooks(driver: Driver) -> Iterator[Webhooks]:
    """Return the webhook, registered and answering."""
    with running_webhooks(driver.cluster) as webhooks:
        yield webhooks


def by_id(text: str) -> dict[str, Object]:
    """Return the findings in what the command has printed, by their checks."""
    return {each["id"]: each for each in json.loads(text)["checks"]}


def shares(stage: Stage) -> bool:
    """Tell whether the agent offers parts of GPUs here."""
    devices: list[Any] = devices_of(stage.client, stage.node)
    return any(each["attributes"]["mode"]["string"] == MODE_SHARED for each in devices)


@pytest.mark.scene("the doctor finds the cluster well, and a limit arrives")
def test_cluster_and_preflight(stage: Stage, webhooks: Webhooks) -> None:
    """All that the chart makes is there and answers; a pod tells what its claim gave it."""
    words = ("--only", "cluster", "--kubeconfig", str(stage.driver.cluster.kubeconfig))
    preflight = ("--preflight", "--preflight-image", IMAGE, "--node", stage.node)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = main(["doctor", *words, *preflight, "-o", "json"])
    found = by_id(printed.getvalue())
    assert {name: found[name] for name in _WELL if found[name]["status"] != "ok"} == {}
    sharing = shares(stage)
    assert found["mode"]["status"] == ("ok" if sharing else "warning")
    assert found["keeps-shares"]["status"] == found["mode"]["status"]
    # The agents are processes here, and no pods.
    assert found["node-agents"]["status"] == "warning"
    assert found["preflight"]["status"] == "ok", found["preflight"]
    marker = "CUDA_DEVICE_MEMORY_LIMIT_0=512m" if sharing else "NVIDIA_VISIBLE_DEVICES=void"
    assert marker in found["preflight"]["seen"]
    assert status == 0, [each for each in found.values() if each["status"] == "failed"]


@pytest.mark.scene("the doctor finds the node well")
def test_node(stage: Stage) -> None:
    """The running containerd says that it applies CDI specs, and kubelet and agent answer."""
    cluster = stage.driver.cluster
    words = ("--only", "node", "--kubelet-root", str(cluster.kubelet_root), "-o", "json")
    directory = ("--cdi-directory", str(cluster.cdi_dir))
    command = (sys.executable, "-m", "cli.main", "doctor", *words, *directory)
    # NVML is simulated in the agents alone, so that check fails, and with it the status.
    ran = cluster.run_in(*command, check=False)
    found = by_id(ran.stdout)
    assert {name: found[name] for name in _OF_THE_NODE if found[name]["status"] != "ok"} == {}
    assert "(the running containerd)" in found["runtime"]["seen"]
