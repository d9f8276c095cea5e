"""Service account tokens as a pod on some node would have them, for programs run by hand.

A token bound to a pod carries the name of the pod's node, which admission policies compare with
the node of what is written. That needs no kubelet, so it works for virtual nodes too.
"""

import json
import shutil
from pathlib import Path
from typing import Any, Final

from tests.cluster.cluster import RealCluster
from tests.cluster.images import PAUSE

_VALID_S: Final = 12 * 3600


def pod_of(node: str, namespace: str, account: str) -> dict[str, Any]:
    """Return the pod that stands for a program of *account* on *node*."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{account}-{node}", "namespace": namespace},
        "spec": {
            # Set here, so that no scheduler has a say.
            "nodeName": node,
            "serviceAccountName": account,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": PAUSE, "imagePullPolicy": "Never"}],
        },
    }


def identity_on(cluster: RealCluster, *, node: str, namespace: str, account: str) -> Path:
    """Return a folder with token, authority and namespace, as kubelet mounts them into a pod.

    The namespace and the service account must exist; the pod is made when it does not.
    """
    pod = json.loads(
        cluster.kubectl(
            "apply", "-f", "-", "-o", "json", stdin=json.dumps(pod_of(node, namespace, account))
        )
    )
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    token = cluster.kubectl(
        "create",
        "token",
        account,
        f"--namespace={namespace}",
        "--bound-object-kind=Pod",
        f"--bound-object-name={name}",
        f"--bound-object-uid={uid}",
        f"--duration={_VALID_S}s",
    )
    folder = cluster.state_dir / "identities" / f"{namespace}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "token").touch(mode=0o600)
    (folder / "token").write_text(token.strip())
    (folder / "namespace").write_text(namespace)
    shutil.copy(cluster.state.pki / "ca.crt", folder / "ca.crt")
    return folder
