"""What the cluster says: slices, claims, pods, containers and metrics, put side by side."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from cli.demo.scenes import MIB
from gpu import names
from kube import paths
from kube.client import Client
from kube.objects import JsonObject
from kube.quantity import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One allocated device of a claim, as the scheduler wrote it."""

    claim: str
    request: str
    node: str
    device: str
    memory_mib: int | None
    """`None` where nothing is consumed, because nobody shares the device."""
    cores_percent: int
    shares: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One device that a node offers."""

    node: str
    name: str
    product: str
    mode: str
    profile: str
    uuid: str
    parent_uuid: str
    pci_bus_id: str
    memory_mib: int
    shares: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A pod as the API server shows it."""

    name: str
    uid: str
    phase: str
    node: str
    why_pending: str
    claims: tuple[str, ...]
    templates: tuple[str, ...] = ()
    """Those that its claims are made from."""
    resources: frozenset[str] = frozenset()
    """The names in the limits of its containers."""


class Reader:
    """Reads the API server anew at each call."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def devices(self) -> dict[tuple[str, str], Published]:
        """Return what is published, by node and device name."""
        found = {}
        for slice_ in self._items(paths.resource_slices()):
            for device in slice_["spec"].get("devices", []):
                published = _published(slice_["spec"]["nodeName"], device)
                found[published.node, published.name] = published
        return found

    def given(self) -> list[Given]:
        """Return every allocated device."""
        found: list[Given] = []
        for claim in self._items(paths.resource_claims("default")):
            allocation = claim.get("status", {}).get("allocation") or {"devices": {}}
            results = allocation["devices"].get("results", [])
            found.extend(_given(claim["metadata"]["name"], result) for result in results)
        return found

    def pods(self) -> dict[str, PodState]:
        """Return all pods by name."""
        return {each["metadata"]["name"]: _pod(each) for each in self._items(paths.pods("default"))}

    def templates(self) -> dict[str, JsonObject]:
        """Return the claim in each template, by its name."""
        items = self._items(paths.resource_claim_templates("default"))
        return {each["metadata"]["name"]: each["spec"]["spec"] for each in items}

    def claims(self) -> list[str]:
        """Return the names of all claims."""
        return [each["metadata"]["name"] for each in self._items(paths.resource_claims("default"))]

    def _items(self, path: str) -> list[JsonObject]:
        return list(json.loads(self._client.get(path))["items"])


def granted_mib(metrics: str) -> dict[str, int]:
    """Return the granted memory by claim, as an agent's *metrics* tell it."""
    granted: dict[str, int] = {}
    for family in text_string_to_metric_families(metrics):
        if family.name == "gpuslice_granted_memory_mib":
            for sample in family.samples:
                claim = sample.labels["claim"]
                granted[claim] = granted.get(claim, 0) + int(sample.value)
    return granted


def _published(node: str, device: JsonObject) -> Published:
    attributes = device["attributes"]
    capacity = device.get("capacity", {})
    return Published(
        node=node,
        name=device["name"],
        product=attributes["productName"]["string"],
        mode=attributes["mode"]["string"],
        profile=attributes["profile"]["string"],
        uuid=attributes["uuid"]["string"],
        parent_uuid=attributes["parentUUID"]["string"],
        pci_bus_id=attributes[names.ATTRIBUTE_PCI_BUS_ID]["string"],
        memory_mib=_number(capacity, names.CAPACITY_MEMORY) // MIB,
        shares=_number(capacity, names.CAPACITY_SHARES),
    )


def _number(capacity: Mapping[str, JsonObject], name: str) -> int:
    return parse(str(capacity[name]["value"])).value() if name in capacity else 0


def _given(claim: str, result: JsonObject) -> Given:
    consumed = result.get("consumedCapacity") or {}
    values = {name: parse(str(quantity)).value() for name, quantity in consumed.items()}
    memory = values.get(names.CAPACITY_MEMORY)
    return Given(
        claim=claim,
        request=result["request"],
        node=result["pool"],
        device=result["device"],
        memory_mib=memory // MIB if memory is not None else None,
        cores_percent=values.get(names.CAPACITY_CORES, 0),
        shares=values.get(names.CAPACITY_SHARES, 0),
    )


def _pod(pod: JsonObject) -> PodState:
    status = pod.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions", [])}
    scheduled = conditions.get("PodScheduled", {})
    return PodState(
        name=pod["metadata"]["name"],
        uid=pod["metadata"]["uid"],
        phase=status.get("phase", "Pending"),
        node=pod["spec"].get("nodeName", ""),
        why_pending=scheduled.get("message", "") if scheduled.get("status") == "False" else "",
        claims=tuple(
            each["resourceClaimName"]
            for each in status.get("resourceClaimStatuses", [])
            if each.get("resourceClaimName")
        ),
        templates=tuple(
            each["resourceClaimTemplateName"]
            for each in pod["spec"].get("resourceClaims", [])
            if each.get("resourceClaimTemplateName")
        ),
        resources=frozenset(
            name
            for each in pod["spec"]["containers"]
            for name in each.get("resources", {}).get("limits", {})
        ),
    )
