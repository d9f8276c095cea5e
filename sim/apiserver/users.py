"""Who writes: the groups that the real server gives users by their names."""

from __future__ import annotations

from typing import Final

ADMINISTRATORS: Final = "system:masters"
"""May do everything, whatever else is granted (apiserver: pkg/authentication/user)."""
SIMULATION: Final = "system:simulation"
"""What writes in the process and is no component of a cluster: tests and the demo."""
SCHEDULER: Final = "system:kube-scheduler"
CLAIM_CONTROLLER: Final = "system:serviceaccount:kube-system:resource-claim-controller"
GARBAGE_COLLECTOR: Final = "system:serviceaccount:kube-system:generic-garbage-collector"
NAMESPACE_CONTROLLER: Final = "system:serviceaccount:kube-system:namespace-controller"
POD_COLLECTOR: Final = "system:serviceaccount:kube-system:pod-garbage-collector"

_ACCOUNT = "system:serviceaccount:"
_NODE = "system:node:"


def node_user(node: str) -> str:
    """Return the user that a node's kubelet is."""
    return f"{_NODE}{node}"


def groups_of(user: str) -> list[str]:
    """Return the groups of *user*, as an `AdmissionReview` tells them."""
    own: list[str] = []
    if user in {"admin", SIMULATION}:
        own = [ADMINISTRATORS]
    elif user.startswith(_NODE):
        own = ["system:nodes"]
    elif user.startswith(_ACCOUNT):
        namespace = user.removeprefix(_ACCOUNT).partition(":")[0]
        own = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return [*own, "system:authenticated"]
