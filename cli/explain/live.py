"""Read from a cluster what an explanation is made from; nothing is written.

Pods of other namespaces are listed only where they matter: for a pod that asks for extended
resources, of which nodes have a limited number, be they counted or shared by annotations.
"""

import json
from collections.abc import Iterator

from cli.explain.errors import InputError
from kube import paths
from kube.client import Client
from kube.errors import ApiError, ForbiddenError, KubeError, NotFoundError, NotServedError
from kube.objects import JsonObject

_PAGE = 500
_RULES = "devicetaintrules"
_RULE_VERSIONS = ("v1", "v1beta2", "v1alpha3")
"""Those in which DeviceTaintRules were served, the newest first."""


class Live:
    """The objects of a cluster that bear on what is in one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.notes: list[str] = []
        self.claim_notes: list[str] = []
        """What matters only where claims decide."""
        self._client = client
        try:
            self.version = client.server_version()
            self.objects = [
                *self._needed("nodes", paths.nodes(), "Node"),
                *self._pods(namespace),
                *self._needed("resourceclaims", paths.resource_claims(), "ResourceClaim"),
                *self._needed("resourceslices", paths.resource_slices(), "ResourceSlice"),
                *self._needed("deviceclasses", paths.device_classes(), "DeviceClass"),
                *self._templates(namespace),
                *self._namespace(namespace),
                *self._rules(),
                *self._quotas(namespace),
            ]
        except KubeError as error:
            message = f"the cluster cannot be read: {error}"
            raise InputError(message) from error

    def _needed(self, plural: str, path: str, kind: str) -> Iterator[JsonObject]:
        try:
            yield from self._list(path, kind)
        except ForbiddenError as error:
            message = f"explaining needs the right to list {plural} of the whole cluster: {error}"
            raise InputError(message) from error
        except NotServedError:
            self.claim_notes.append(f"the cluster serves no {plural}")

    def _pods(self, namespace: str) -> list[JsonObject]:
        pods = list(self._needed_pods(namespace))
        if any(_extended(pod) for pod in pods if not pod["spec"].get("nodeName")):
            try:
                return list(self._list(paths.pods(), "Pod"))
            except ForbiddenError as error:
                self.notes.append(f"what pods of other namespaces hold is not known: {error}")
        return pods

    def _needed_pods(self, namespace: str) -> Iterator[JsonObject]:
        try:
            yield from self._list(paths.pods(namespace), "Pod")
        except ForbiddenError as error:
            message = f"explaining needs the right to list pods in {namespace}: {error}"
            raise InputError(message) from error

    def _templates(self, namespace: str) -> list[JsonObject]:
        path = paths.resource_claim_templates(namespace)
        return self._wished(path, "ResourceClaimTemplate")

    def _namespace(self, namespace: str) -> list[JsonObject]:
        try:
            found = json.loads(self._client.get(paths.namespaces(namespace)))
        except ApiError as error:
            self.notes.append(f"namespace {namespace} is not known: {error}")
            return []
        return [{"kind": "Namespace", **found}]

    def _rules(self) -> list[JsonObject]:
        for version in _RULE_VERSIONS:
            if self._serves(version, _RULES):
                path = paths.resource(f"resource.k8s.io/{version}", _RULES)
                return self._wished(path, "DeviceTaintRule")
        return []

    def _quotas(self, namespace: str) -> list[JsonObject]:
        path = paths.resource("v1", "resourcequotas", namespace=namespace)
        return self._wished(path, "ResourceQuota")

    def _serves(self, version: str, plural: str) -> bool:
        try:
            served = json.loads(self._client.get(f"/apis/resource.k8s.io/{version}"))
        except (NotFoundError, NotServedError):
            return False
        return any(item.get("name") == plural for item in served.get("resources") or ())

    def _wished(self, path: str, kind: str) -> list[JsonObject]:
        try:
            return list(self._list(path, kind))
        except NotServedError:
            return []
        except ForbiddenError as error:
            self.notes.append(f"{kind}s are not known: {error}")
            return []

    def _list(self, path: str, kind: str) -> Iterator[JsonObject]:
        params = {"limit": str(_PAGE)}
        while True:
            page = json.loads(self._client.get(path, params))
            for item in page.get("items") or ():
                yield {"apiVersion": page.get("apiVersion"), "kind": kind, **item}
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return
            params["continue"] = following


def _extended(pod: JsonObject) -> bool:
    containers = [*pod["spec"].get("containers", ()), *pod["spec"].get("initContainers", ())]
    return any(
        "/" in name
        for container in containers
        for kind in ("limits", "requests")
        for name in ((container.get("resources") or {}).get(kind) or {})
    )
