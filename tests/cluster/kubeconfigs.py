"""Kubeconfigs for the components and for people, and the certificates that they name."""

import json
from pathlib import Path
from typing import Final

from tests.cluster.certificates import Authority, write_signing_pair
from tests.cluster.places import API_SERVICE_ADDRESS, State, node_address

_API_SERVER_NAMES: Final = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)
_SERVER: Final = f"https://{API_SERVICE_ADDRESS}:443"


def write_all(state: State, node: str) -> None:
    """Write every key, certificate and kubeconfig of a cluster whose first node is *node*."""
    authority = Authority(state.pki)
    local = (node_address(0), "127.0.0.1", "localhost")
    authority.issue(
        "apiserver", "kube-apiserver", hosts=(*_API_SERVER_NAMES, API_SERVICE_ADDRESS, *local)
    )
    authority.issue("local", "localhost", hosts=local)
    authority.issue("kubelet", f"system:node:{node}", hosts=(node, *local))
    authority.issue("apiserver-kubelet-client", "kube-apiserver", groups=("system:masters",))
    write_signing_pair(state.pki, "service-account")
    users = {
        "admin": ("kubernetes-admin", "system:masters"),
        "controller-manager": ("system:kube-controller-manager", None),
        "scheduler": ("system:kube-scheduler", None),
        "node": (f"system:node:{node}", "system:nodes"),
    }
    for user, (name, group) in users.items():
        authority.issue(f"client-{user}", name, groups=(group,) if group else ())
        write_for_certificate(state, user)


def write_for_certificate(state: State, user: str) -> Path:
    """Write the kubeconfig of a *user* whose certificate is client-USER."""
    credentials = {
        "client-certificate": str(state.pki / f"client-{user}.crt"),
        "client-key": str(state.pki / f"client-{user}.key"),
    }
    return _write(state, user, credentials)


def write_for_token(state: State, user: str, token_file: Path) -> Path:
    """Write a kubeconfig for *user* that reads its token from a file."""
    return _write(state, user, {"tokenFile": str(token_file)})


def _write(state: State, user: str, credentials: dict[str, str]) -> Path:
    path = state.kubeconfig(user)
    path.touch(mode=0o600)
    # JSON is YAML.
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {
                        "name": "cluster",
                        "cluster": {
                            "server": _SERVER,
                            "certificate-authority": str(state.pki / "ca.crt"),
                        },
                    }
                ],
                "users": [{"name": user, "user": credentials}],
                "contexts": [{"name": user, "context": {"cluster": "cluster", "user": user}}],
                "current-context": user,
            },
            indent=1,
        )
    )
    return path
