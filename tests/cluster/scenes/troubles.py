"""Pods that are in the way of trouble: made one like the other, and asked what they got.

Each has a claim of its own name. Where the server keeps what makes a GPU shareable it is a share,
else a whole GPU, so that the same scene plays on every release; of the latter there are four.
"""

import copy
import json
from collections.abc import Mapping
from typing import Final

from gpu import names
from kube import paths
from kube.client import MERGE_PATCH
from tests.cluster.scenes.driver import devices_of
from tests.cluster.scenes.expectations import expect_limits, expect_whole
from tests.cluster.scenes.leftovers import claims_of_kubelet
from tests.cluster.scenes.manifests import Object, claim, pod, request
from tests.cluster.scenes.stage import Stage
from tests.patience import eventually

FAILED: Final = "FailedPrepareDynamicResources"
_MEMORY_MIB: Final = 1024
_CORES: Final = 10


def shares(stage: Stage) -> bool:
    """Tell whether the server lets the driver offer shares."""
    devices = devices_of(stage.client, stage.node)
    return any(each.get("allowMultipleAllocations") for each in devices)


def users(stage: Stage, products: Mapping[str, str]) -> list[Object]:
    """Return a claim and a pod for each name in *products*, on the GPU that it says."""
    shared = shares(stage)
    found = []
    for name, product in products.items():
        asked = (
            request(memory=f"{_MEMORY_MIB}Mi", cores=_CORES, product=product)
            if shared
            else request(device_class=names.CLASS_WHOLE, product=product)
        )
        found += [claim(name, asked), pod(name, {"gpu": name}, node=stage.node)]
    return found


def expect_served(stage: Stage, *named: str) -> None:
    """Wait until each pod runs with exactly what its claim was given."""
    for name in named:
        report = stage.report(name)
        (given,) = stage.given(name)
        if given.memory_mib is None:
            expect_whole(report, given.product)
        else:
            assert (given.memory_mib, given.cores_percent) == (_MEMORY_MIB, _CORES)
            expect_limits(report, {given.product: (f"{_MEMORY_MIB}m", str(_CORES))})


def expect_untouched(stage: Stage, *named: str) -> None:
    """Check that no container of these pods has ended since its pod came."""
    for name in named:
        # What a container prints is there before the pod's status says that it runs.
        eventually(lambda name=name: runs(stage, name))  # type: ignore[misc]
        (status,) = stage.pod(name)["status"]["containerStatuses"]
        assert status["restartCount"] == 0, status


def runs(stage: Stage, name: str) -> bool:
    """Tell whether the pod's only container runs."""
    statuses = stage.pod(name)["status"].get("containerStatuses", [])
    return bool(statuses) and "running" in statuses[0]["state"]


def slow_to_end(objects: list[Object], seconds: int = 4) -> list[Object]:
    """Return *objects* with pods that do not end when they are told to, but *seconds* later."""
    found = copy.deepcopy(objects)
    for each in found:
        if each["kind"] == "Pod":
            each["spec"]["terminationGracePeriodSeconds"] = seconds
            (container,) = each["spec"]["containers"]
            container["command"][-1] = container["command"][-1].replace("'exit 0'", "''")
    return found


def node_is_ready(stage: Stage) -> bool:
    """Tell whether pods may go to the node with a kubelet."""
    node = json.loads(stage.client.get(paths.nodes(stage.node)))
    ready = {each["type"]: each["status"] for each in node["status"]["conditions"]}["Ready"]
    return ready == "True" and not node["spec"].get("taints")


def restarted(stage: Stage, name: str) -> bool:
    """Tell whether the pod's only container has ended and runs again."""
    statuses = stage.pod(name)["status"].get("containerStatuses", [])
    return bool(statuses) and statuses[0]["restartCount"] > 0 and "running" in statuses[0]["state"]


def asked_of_agent(stage: Stage, *claim_names: str) -> None:
    """Wait until kubelet has written these claims down, which it does before it asks the agent."""
    wanted = {uid_of(stage, each) for each in claim_names}
    eventually(lambda: wanted <= set(claims_of_kubelet(stage.driver)))


def wake(stage: Stage, name: str) -> None:
    """Change a label of the pod, at which kubelet looks at it at once.

    After a failure it would by itself in 10 to 15 s (pkg/kubelet/pod_workers.go); nothing else
    comes of it.
    """
    number = str(int(stage.pod(name)["metadata"].get("labels", {}).get("woken", 0)) + 1)
    body = {"metadata": {"labels": {"woken": number}}}
    stage.client.patch(paths.pods("default", name), body, content_type=MERGE_PATCH)


def end(stage: Stage, name: str) -> None:
    """Delete the pod and do not wait."""
    stage.client.delete(paths.pods("default", name))


def gone(stage: Stage, name: str) -> bool:
    """Tell whether there is no such pod."""
    items = json.loads(stage.client.get(paths.pods("default")))["items"]
    return name not in {each["metadata"]["name"] for each in items}


def unscheduled(stage: Stage) -> list[str]:
    """Return the pods that have no node yet."""
    items = json.loads(stage.client.get(paths.pods("default")))["items"]
    return [each["metadata"]["name"] for each in items if not each["spec"].get("nodeName")]


def uid_of(stage: Stage, claim_name: str) -> str:
    """Return the UID of a claim."""
    found = json.loads(stage.client.get(paths.resource_claims("default", claim_name)))
    return str(found["metadata"]["uid"])


def own_slices(stage: Stage) -> dict[str, int]:
    """Return UID and pool generation of the slices of the node with a kubelet."""
    slices = json.loads(stage.client.get(paths.resource_slices()))["items"]
    return {
        each["metadata"]["uid"]: each["spec"]["pool"]["generation"]
        for each in slices
        if each["spec"]["nodeName"] == stage.node
    }


def eventually_gone(stage: Stage, *named: str) -> None:
    """Wait until there are no such pods."""
    for name in named:
        eventually(lambda name=name: gone(stage, name))  # type: ignore[misc]
