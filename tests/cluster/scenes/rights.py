"""What the chart grants to its programs against what the API server saw them ask for.

Rights are read from what the chart renders, requests from the server's audit log. A right that
nobody has used is a right too many, unless UNUSED says why it is there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster.scenes.agents import NAMESPACE
from tests.cluster.scenes.audit import events_of
from tests.cluster.scenes.driver import MANIFESTS

_FORBIDDEN: Final = 403


@dataclass(frozen=True, order=True, slots=True)
class Right:
    """A verb on a resource, `group/resource[/subresource]`."""

    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


UNUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "gpuslice-node-agent": {},
    "gpuslice-webhook": {
        "create /events": "a template that somebody else made is told of; no scene has one",
        "patch /events": "an event that comes again is counted",
        "get /pods": "a claim may come before the watch has brought its pod",
        "delete resource.k8s.io/resourceclaimtemplates": "scenes end sooner than unused ones go",
        "update /secrets": "certificates are renewed after eight months",
    },
    "gpuslice-scheduler": {
        "patch /events": "an event that comes again is counted",
    },
}
"""By account: a right that scenes need not use, and why the program has it all the same."""


def granted(account: str) -> frozenset[Right]:
    """Return what the chart's own roles grant to the service account, whatever is installed."""
    files = sorted(MANIFESTS.rglob("rbac*.yaml"))
    objects = [each for path in files for each in yaml.safe_load_all(path.read_text()) if each]
    bound = {
        (each["roleRef"]["kind"], each["roleRef"]["name"])
        for each in objects
        if any(subject["name"] == account for subject in each.get("subjects", ()))
    }
    roles = [each for each in objects if (each["kind"], each["metadata"]["name"]) in bound]
    return frozenset(_expanded(rule for role in roles for rule in role["rules"]))


def _expanded(rules: Iterator[dict[str, Any]]) -> Iterator[Right]:
    for rule in rules:
        for group in rule.get("apiGroups", []):
            for resource in rule.get("resources", []):
                for verb in rule["verbs"]:
                    yield Right(f"{group}/{resource}", verb)


def used(audit_log: Path, account: str) -> frozenset[Right]:
    """Return what the account has asked for and was given, as far as the log goes."""
    return frozenset(
        right
        for event in events_of(audit_log, user=_user(account))
        if "objectRef" in event and _code(event) != _FORBIDDEN
        for right in _rights(event)
    )


def refused(audit_log: Path, account: str, *, since: int = 0) -> frozenset[str]:
    """Return what it has asked for and was not allowed, from the log's line *since* on."""
    return frozenset(
        f"{' '.join(map(str, _rights(event)))}: {event['responseStatus'].get('message', '')}"
        for event in events_of(audit_log, since=since, user=_user(account))
        if _code(event) == _FORBIDDEN
    )


def unused(audit_log: Path, account: str) -> frozenset[str]:
    """Return what is granted and was never asked for."""
    return frozenset(str(each) for each in granted(account) - used(audit_log, account))


def _user(account: str) -> str:
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def _code(event: dict[str, Any]) -> int:
    return int(event.get("responseStatus", {}).get("code", 0))


def _rights(event: dict[str, Any]) -> Iterator[Right]:
    reference = event.get("objectRef", {})
    sub = f"/{reference['subresource']}" if reference.get("subresource") else ""
    group = reference.get("apiGroup", "")
    resource = reference.get("resource", event["requestURI"])
    yield Right(f"{group}/{resource}{sub}", event["verb"])
    # Asked for beside the write itself, since 1.36 (KEP-4817).
    if (resource, sub, event["verb"]) == ("resourceclaims", "/status", "update"):
        yield Right(f"{group}/resourceclaims/driver", "associated-node:update")
