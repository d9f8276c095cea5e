"""The objects of a preflight: what asks for a GPU, and a pod that tells what it got.

The pod binds to its node by the node's name, because labels of nodes may say anything. It tells it
twice: in its log, and in the message with which it ends, which needs no right to read logs and no
way from the API server to kubelet.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu.names import CAPACITY_MEMORY, CLASS_MIG, CLASS_SHARE, CLASS_WHOLE
from kube.objects import JsonObject

MEMORY_MIB: Final = 512
END: Final = "gpuslice-preflight-end"
LABELS: Final = {"app.kubernetes.io/managed-by": "gpuslice-doctor"}

_CONTAINER: Final = "preflight"
_CLAIM: Final = "gpu"
_PREFIXES: Final = ("CUDA_", "NVIDIA_")
_TOLD_IN: Final = "/dev/termination-log"
_SHELL: Final = f"{{ env | grep -E '^({'|'.join(_PREFIXES)})'; echo {END}; }} | tee {_TOLD_IN}"
_PYTHON: Final = f"""\
import os
told = [f"{{key}}={{value}}" for key, value in os.environ.items() if key.startswith({_PREFIXES})]
text = "\\n".join([*told, "{END}"]) + "\\n"
print(text, end="", flush=True)
open("{_TOLD_IN}", "w").write(text)
"""


class Way(StrEnum):
    """How a node gives its GPUs away."""

    SHARE = "share"
    WHOLE = "whole"
    MIG = "mig"
    LIMITS = "limits"
    """By HAMi's annotations and the device plugin."""


_CLASSES: Final = {Way.SHARE: CLASS_SHARE, Way.WHOLE: CLASS_WHOLE, Way.MIG: CLASS_MIG}
MARKERS: Final = {
    Way.SHARE: ("CUDA_DEVICE_MEMORY_LIMIT_0", f"{MEMORY_MIB}m"),
    Way.WHOLE: ("NVIDIA_VISIBLE_DEVICES", "void"),
    Way.MIG: ("NVIDIA_VISIBLE_DEVICES", "void"),
    Way.LIMITS: ("CUDA_DEVICE_MEMORY_LIMIT_0", f"{MEMORY_MIB}m"),
}
"""The variable that only our node agent sets so, and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What the pod runs."""

    name: str
    has_shell: bool
    """Else it has Python, as our own image has."""

    @property
    def command(self) -> list[str]:
        """Return what tells the variables."""
        return ["sh", "-c", _SHELL] if self.has_shell else ["python3", "-c", _PYTHON]


def claim(name: str, namespace: str, way: Way) -> JsonObject:
    """Return a claim for one device."""
    request: JsonObject = {"deviceClassName": _CLASSES[way]}
    if way is Way.SHARE:
        request["capacity"] = {"requests": {CAPACITY_MEMORY: f"{MEMORY_MIB}Mi"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(LABELS)},
        "spec": {"devices": {"requests": [{"name": _CLAIM, "exactly": request}]}},
    }


def pod(
    name: str, namespace: str, *, node: str, way: Way, image: Image, deadline_s: int
) -> JsonObject:
    """Return a pod that tells what it got on *node*, and ends by itself after *deadline_s*."""
    container: JsonObject = {
        "name": _CONTAINER,
        "image": image.name,
        "imagePullPolicy": "IfNotPresent",
        "command": image.command,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec: JsonObject = {
        "containers": [container],
        "restartPolicy": "Never",
        "activeDeadlineSeconds": deadline_s,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": _on(node)},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if way is Way.LIMITS:
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(MEMORY_MIB)}
        container["resources"] = {"limits": limits}
    else:
        container["resources"] = {"claims": [{"name": _CLAIM}]}
        spec["resourceClaims"] = [{"name": _CLAIM, "resourceClaimName": name}]
    metadata = {"name": name, "namespace": namespace, "labels": dict(LABELS)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _on(node: str) -> JsonObject:
    by_name = {"key": "metadata.name", "operator": "In", "values": [node]}
    term = {"matchFields": [by_name]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def told(text: str) -> dict[str, str] | None:
    """Return the variables in what a container told; `None` before it has told all."""
    lines = text.splitlines()
    if END not in lines:
        return None
    pairs = (line.partition("=") for line in lines[: lines.index(END)])
    return {key: value for key, sign, value in pairs if sign}
