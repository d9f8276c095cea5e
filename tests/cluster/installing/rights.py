"""What the chart grants to its programs against what the API server saw them ask for.

Rights are read from the roles that helm has installed, requests from the audit log. A right
that nobody has used is a right too many, unless UNUSED says why it is there.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kube import paths
from kube.client import Client
from tests.charts.rendering import NAMESPACE
from tests.cluster.cluster import RealCluster
from tests.cluster.scenes.audit import events_of

_BUILT_IN: Final = ("system:", "extension-apiserver")
_RBAC: Final = "rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, order=True, slots=True)
class Right:
    """A verb on a resource, `group/resource[/subresource]`."""

    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


UNUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "gpuslice-node-agent": {
        "get /nodes": "the chart grants what `gpuslice doctor` in the agent's container asks",
    },
    "gpuslice-webhook": {},
    "gpuslice-scheduler": {},
}


def granted(client: Client, account: str) -> frozenset[Right]:
    """Return what the chart's own roles grant to the service account."""
    return frozenset(_expanded(_rules(client, account)))


def _rules(client: Client, account: str) -> Iterator[dict[str, Any]]:
    for bindings, namespace in (("clusterrolebindings", None), ("rolebindings", NAMESPACE)):
        listed = client.get(paths.resource(_RBAC, bindings, namespace=namespace))
        for binding in json.loads(listed)["items"]:
            subjects = binding.get("subjects") or []
            role = binding["roleRef"]
            if role["name"].startswith(_BUILT_IN):
                continue
            if any(
                (each["kind"], each["name"]) == ("ServiceAccount", account) for each in subjects
            ):
                plural = f"{role['kind'].lower()}s"
                within = namespace if role["kind"] == "Role" else None
                path = paths.resource(_RBAC, plural, namespace=within, name=role["name"])
                yield from json.loads(client.get(path))["rules"] or []


def _expanded(rules: Iterator[dict[str, Any]]) -> Iterator[Right]:
    for rule in rules:
        for group in rule.get("apiGroups", []):
            for resource in rule.get("resources", []):
                for verb in rule["verbs"]:
                    yield Right(f"{group}/{resource}", verb)


def used(cluster: RealCluster, account: str) -> frozenset[Right]:
    """Return what the account has asked for and was given, as far as the log goes."""
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    return frozenset(
        _right(event)
        for event in events_of(cluster.state.audit_log, user=user)
        if "objectRef" in event and event["responseStatus"]["code"] != 403
    )


def refused(cluster: RealCluster, account: str) -> frozenset[str]:
    """Return what it has asked for and was not allowed, with the server's reason."""
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    return frozenset(
        f"{_right(event)}: {event['responseStatus'].get('message', '')}"
        for event in events_of(cluster.state.audit_log, user=user)
        if event.get("responseStatus", {}).get("code") == 403
    )


def _right(event: dict[str, Any]) -> Right:
    reference = event.get("objectRef", {})
    sub = f"/{reference['subresource']}" if reference.get("subresource") else ""
    return Right(
        f"{reference.get('apiGroup', '')}/{reference.get('resource', event['requestURI'])}{sub}",
        event["verb"],
    )


def unused(cluster: RealCluster, client: Client, account: str) -> frozenset[Right]:
    """Return what is granted and was never asked for."""
    return granted(client, account) - used(cluster, account)
