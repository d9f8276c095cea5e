"""An API server that helm can look into: discovery, and objects that were put there to be read.

It answers what helm asks of a server for `--dry-run=server`: which release it is, which kinds it
has (the plain discovery documents), lists, and single objects. Nothing can be written.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml

from tests.charts.rendering import CHART, KUBE_SCHEDULER, NAMESPACE, RELEASE, Object, merged, run

_KINDS: Final = {
    "v1": "ConfigMap Pod ResourceQuota Secret Service ServiceAccount",
    "admissionregistration.k8s.io/v1": (
        "-MutatingWebhookConfiguration -ValidatingAdmissionPolicy"
        " -ValidatingAdmissionPolicyBinding -ValidatingWebhookConfiguration"
    ),
    "apps/v1": "DaemonSet Deployment",
    "networking.k8s.io/v1": "NetworkPolicy",
    "policy/v1": "PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1": "-ClusterRole -ClusterRoleBinding Role RoleBinding",
    "resource.k8s.io/v1": "-DeviceClass",
    "resource.k8s.io/v1beta1": "-DeviceClass",
}
"""Kinds by version; a dash says that it has no namespaces."""


def _plural(kind: str) -> str:
    name = kind.lower()
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith("s") else f"{name}s"


def _resources(version: str) -> Object:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": version,
        "resources": [
            {
                "name": _plural(kind.strip("-")),
                "singularName": kind.strip("-").lower(),
                "namespaced": not kind.startswith("-"),
                "kind": kind.strip("-"),
                "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
            }
            for kind in _KINDS[version].split()
        ],
    }


def _groups() -> Object:
    """Return one group for each version: clients put those of one name together."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [
            {
                "name": version.partition("/")[0],
                "versions": [{"groupVersion": version, "version": version.partition("/")[2]}],
            }
            for version in _KINDS
            if "/" in version
        ],
    }


def _answer(path: str, release: str, objects: Sequence[Object]) -> Object | None:
    if path == "/version":
        minor = release.split(".")[1]
        return {"major": "1", "minor": minor, "gitVersion": f"v{release}"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        return _groups()
    parts = path.strip("/").split("/")
    length = 2 if parts[0] == "api" else 3
    version, rest = "/".join(parts[1:length]), parts[length:]
    if version not in _KINDS:
        return None
    if not rest:
        return _resources(version)
    return _objects(version, rest, objects)


def _objects(version: str, rest: list[str], objects: Sequence[Object]) -> Object | None:
    namespace = rest[1] if rest[0] == "namespaces" else ""
    plural, *name = rest[2:] if namespace else rest
    found = [
        each
        for each in objects
        if each["apiVersion"] == version
        and _plural(each["kind"]) == plural
        and namespace in {"", each["metadata"].get("namespace")}
    ]
    if not name:
        return {"kind": "List", "apiVersion": version, "metadata": {}, "items": found}
    return next((each for each in found if each["metadata"]["name"] == name[0]), None)


@contextmanager
def api_server(
    folder: Path, objects: Sequence[Object], *, release: str = "1.37.2"
) -> Iterator[Path]:
    """Serve *objects* as a cluster of that release; yield a kubeconfig in *folder*."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = _answer(self.path.partition("?")[0], release, objects)
            missing = {"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound"}
            body = json.dumps(missing if answer is None else answer).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        # Helm asks for all groups at once; who finds the queue full tries again after a second.
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(_kubeconfig(server.server_port)))
        yield file
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _kubeconfig(port: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "nobody"}}],
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "nobody", "user": {}}],
    }


def install(
    folder: Path,
    objects: Sequence[Object],
    values: Mapping[str, Any] | None = None,
    *,
    helm: int = 4,
    release: str = "1.37.2",
) -> str:
    """Return what helm prints when it would install the chart beside *objects*, with its notes."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(merged(KUBE_SCHEDULER, values or {})))
    with api_server(folder, objects, release=release) as kubeconfig:
        return run(
            helm,
            *("install", RELEASE, str(CHART), "--namespace", NAMESPACE),
            *("--values", str(file), "--dry-run=server", "--disable-openapi-validation"),
            kubeconfig=str(kubeconfig),
        )
