"""Makes a GPU of the node with a kubelet ill and well again, and says what is published of that.

An XID is an event: it is delivered once to whoever waits for it. What the driver advises stays
until somebody takes it back, so that the scene and not the clock decides when the GPU is well.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any, Final

import yaml

from gpu import names
from kube import paths
from sim import gpufile, hardware
from tests.cluster.scenes.driver import Driver, devices_of
from tests.cluster.scenes.manifests import Object
from tests.cluster.scenes.stage import Stage
from tests.patience import eventually

TAINT: Final = "gpuslice.io/unhealthy"
CODES: Final = ("Xid79", "GpuResetNeeded")
# The advice alone decides, and it is looked for every second.
_FLAGS: Final = {"--xid-recovery-s": 0, "--scan-interval-s": 1}


@contextlib.contextmanager
def watching_health(driver: Driver, effect: str = "NoSchedule") -> Iterator[None]:
    """Have an agent for the block that looks at its GPUs often; *effect* is that of its taints."""
    with driver.first_away(flags=_FLAGS | {"--unhealthy-effect": effect}):
        pass
    try:
        yield
    finally:
        with driver.first_away():
            pass


@contextlib.contextmanager
def ailing(driver: Driver, product: str) -> Iterator[None]:
    """Let the GPU *product* fail with an XID for the block."""
    _rewrite(driver, product, {"xids": [79], "recovery_action": "gpu-reset"})
    try:
        yield
    finally:
        _rewrite(driver, product, {"xids": [], "recovery_action": "none"})


def _rewrite(driver: Driver, product: str, fields: dict[str, Any]) -> None:
    path = driver.first.gpus
    text = yaml.safe_load(path.read_text())
    found = [each.name for each in hardware.gpus(gpufile.load(path))]
    text["gpus"][found.index(product)] |= fields
    # The agent reads it at any time.
    written = path.with_name("gpus.new")
    written.write_text(yaml.safe_dump(text))
    written.replace(path)


def keeps_taints(stage: Stage) -> bool:
    """Tell whether the server keeps what a slice says of taints, as it does since 1.36."""
    return int(stage.driver.cluster.options.minor.partition(".")[2]) >= 36


def device(stage: Stage, product: str) -> Object | None:
    """Return what is published of the GPU *product* now."""
    found = [
        each
        for each in devices_of(stage.client, stage.node)
        if each["attributes"]["productName"]["string"] == product
    ]
    return found[0] if found else None


def taints(stage: Stage, product: str) -> list[tuple[str, str, str]]:
    """Return key, value and effect of the taints of the GPU *product*."""
    found = (device(stage, product) or {}).get("taints", [])
    return [(each["key"], each.get("value", ""), each["effect"]) for each in found]


def readiness(stage: Stage, claim_name: str) -> list[tuple[str, str]]:
    """Return status and reason of what the claim's status says of our devices."""
    path = paths.resource_claims("default", claim_name)
    devices = json.loads(stage.client.get(path))["status"].get("devices", [])
    return [
        (each["status"], each["reason"])
        for entry in devices
        if entry["driver"] == names.DRIVER
        for each in entry.get("conditions", [])
        if each["type"] == "Ready"
    ]


def health_of(stage: Stage, pod_name: str) -> list[str]:
    """Return what kubelet says in the pod's status of the health of its claims' devices."""
    (container,) = stage.pod(pod_name)["status"]["containerStatuses"]
    return [
        str(each["health"])
        for status in container.get("allocatedResourcesStatus", [])
        for each in status.get("resources", [])
    ]


def expect_ill(stage: Stage, product: str, effect: str = "NoSchedule") -> None:
    """Wait until nobody gets the GPU any more: it is tainted, or withdrawn where that is lost."""
    if not keeps_taints(stage):
        eventually(lambda: device(stage, product) is None)
        return
    eventually(lambda: taints(stage, product))
    ((key, value, found),) = taints(stage, product)
    assert (key, found) == (TAINT, effect)
    assert value in CODES


def expect_well(stage: Stage, product: str) -> None:
    """Wait until the GPU is offered as before."""
    eventually(lambda: device(stage, product) is not None and not taints(stage, product))
