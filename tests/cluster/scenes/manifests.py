"""The objects of a scene: the examples as people apply them, and small ones of our own.

An example is changed in three ways and no other: the image is the busybox that the cluster has,
the command is the one that reports, and the pod is bound to go to the node with a kubelet.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from gpu import names
from tests.cluster.cluster import REPOSITORY
from tests.cluster.scenes.report import IMAGE, command

Object = dict[str, Any]
EXAMPLES: Final = REPOSITORY / "examples"


def example(folder: str, *, node: str) -> list[Object]:
    """Return the objects of an example, patched as the module's docstring says."""
    objects = [
        each
        for path in sorted((EXAMPLES / folder).glob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text())
    ]
    return [reporting(each, node=node) if each["kind"] == "Pod" else each for each in objects]


def reporting(pod: Object, *, node: str) -> Object:
    """Return *pod* with containers that report, on *node*; init containers report and end."""
    changed = copy.deepcopy(pod)
    spec = changed["spec"]
    spec |= {"terminationGracePeriodSeconds": 1}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    for each in spec.get("initContainers", []):
        each |= {"image": IMAGE, "imagePullPolicy": "Never", "command": command(stays=False)}
    for each in spec["containers"]:
        each |= {"image": IMAGE, "imagePullPolicy": "Never", "command": command()}
    return changed


def request(
    name: str = "gpu",
    *,
    device_class: str = names.CLASS_SHARE,
    memory: str | None = None,
    cores: int | None = None,
    product: str | None = None,
) -> Object:
    """Return one request of a claim, with its fields below `exactly`."""
    return {
        "name": name,
        "exactly": wanted(device_class=device_class, memory=memory, cores=cores, product=product),
    }


def wanted(
    *,
    device_class: str = names.CLASS_SHARE,
    memory: str | None = None,
    cores: int | None = None,
    product: str | None = None,
) -> Object:
    """Return what a request or one of its alternatives asks for."""
    found: Object = {"deviceClassName": device_class}
    asked = {
        names.CAPACITY_MEMORY: memory,
        names.CAPACITY_CORES: None if cores is None else str(cores),
    }
    if given := {name: value for name, value in asked.items() if value is not None}:
        found["capacity"] = {"requests": given}
    if product is not None:
        expression = f'device.attributes["gpuslice.io"].productName == "{product}"'
        found["selectors"] = [{"cel": {"expression": expression}}]
    return found


def share_config(**fields: Any) -> Object:
    """Return an entry of a claim's or a class's `config`."""
    parameters = {"apiVersion": "gpuslice.io/v1alpha1", "kind": "ShareConfig", **fields}
    return {"opaque": {"driver": names.DRIVER, "parameters": parameters}}


def claim(
    name: str, *requests: Object, config: Sequence[Object] = (), template: bool = False
) -> Object:
    """Return a ResourceClaim, or a template of one."""
    devices: Object = {"requests": list(requests)}
    if config:
        devices["config"] = list(config)
    spec: Object = {"devices": devices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate" if template else "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"spec": spec} if template else spec,
    }


def pod(
    name: str,
    claims: Mapping[str, str],
    *,
    node: str,
    inits: Sequence[str] = (),
    containers: Mapping[str, Sequence[str]] | None = None,
) -> Object:
    """Return a pod that uses *claims*, names of ResourceClaims by their names in the pod.

    *containers* says which of them each container uses; by default one container uses all, and so
    do those that *inits* names.
    """
    used = containers or {"app": list(claims)}
    return reporting(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "resourceClaims": [
                    {"name": each, "resourceClaimName": of} for each, of in claims.items()
                ],
                "initContainers": [_container(each, list(claims)) for each in inits],
                "containers": [_container(each, names_) for each, names_ in used.items()],
            },
        },
        node=node,
    )


def _container(name: str, claims: Sequence[str]) -> Object:
    return {"name": name, "resources": {"claims": [{"name": each} for each in claims]}}
