"""Pods that come and go at random, each with a claim for a share, a GPU or a MIG device.

A pod has a claim of its own name or one from a template, and pods that the node has no room for
wait, as they would anywhere. What is random comes from one seed, what the machine makes of it not.
"""

import contextlib
import json
import random
from collections import Counter
from typing import Final

from gpu import names
from kube import paths
from kube.client import Client
from kube.errors import ConflictError, NotFoundError
from kube.objects import JsonObject
from tests.cluster.cluster import RealCluster
from tests.cluster.scenes.expectations import A10, H100, L4, T4
from tests.cluster.scenes.manifests import claim, pod, request

_NAMESPACE: Final = "default"
_MOST: Final = 12
_STAY: Final = "trap 'exit 0' TERM; while true; do sleep 0.1; done"


class Crowd:
    """The pods of one soak, by the names that it gave them."""

    def __init__(self, cluster: RealCluster, client: Client, chance: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self._cluster = cluster
        self._client = client
        self._chance = chance
        self._alive: list[str] = []

    def act(self) -> None:
        """Create a pod or delete one, in one of the ways in which people do."""
        if not self._alive or (len(self._alive) < _MOST and self._chance.random() < 0.55):
            self._create()
            return
        name = self._alive.pop(self._chance.randrange(len(self._alive)))
        how = self._chance.choices(
            (self._delete, self._delete_by_force, self._delete_claim_first), (6, 2, 1)
        )[0]
        how(name)

    def unwell(self) -> list[str]:
        """Return the pods that have a node and do not run."""
        pods = json.loads(self._client.get(paths.pods(_NAMESPACE)))["items"]
        return [
            f"{each['metadata']['name']} is {each['status']['phase']}"
            for each in pods
            if each["spec"].get("nodeName") and each["status"]["phase"] != "Running"
        ]

    def delete_all(self) -> None:
        """Delete all pods and claims, none of them by force."""
        for path in (paths.pods(_NAMESPACE), paths.resource_claims(_NAMESPACE)):
            self._client.delete(path)
        self._alive.clear()

    def left(self) -> list[str]:
        """Return the pods and claims that there are."""
        return [
            f"{path.rpartition('/')[2]} {each['metadata']['name']}"
            for path in (paths.pods(_NAMESPACE), paths.resource_claims(_NAMESPACE))
            for each in json.loads(self._client.get(path))["items"]
        ]

    def _create(self) -> None:
        kind = self._chance.choices(("share", "whole", "mig"), (8, 2, 1))[0]
        name = f"{kind}-{self.done.total()}"
        templated = self._chance.random() < 0.5
        made = claim(name, self._request(kind), template=templated)
        self._post("resourceclaimtemplates" if templated else "resourceclaims", made)
        body = pod(name, {"gpu": name}, node=self._cluster.node_names[0])
        (use,) = body["spec"]["resourceClaims"]
        if templated:
            use["resourceClaimTemplateName"] = use.pop("resourceClaimName")
        body["spec"]["containers"][0]["command"] = ["sh", "-c", _STAY]
        self._post("pods", body)
        self._alive.append(name)
        self.done[f"created {kind}"] += 1

    def _request(self, kind: str) -> JsonObject:
        if kind == "mig":
            return request(device_class=names.CLASS_MIG)
        product = self._chance.choice((None, T4, A10, L4, H100))
        if kind == "whole":
            return request(device_class=names.CLASS_WHOLE, product=product)
        memory = f"{self._chance.randrange(64, 4096)}Mi"
        return request(memory=memory, cores=self._chance.randrange(40), product=product)

    def _post(self, plural: str, body: JsonObject) -> None:
        group = "v1" if plural == "pods" else "resource.k8s.io/v1"
        self._client.create(paths.resource(group, plural, namespace=_NAMESPACE), body)

    def _delete(self, name: str) -> None:
        self._remove(paths.pods(_NAMESPACE, name))
        self._forget(name)
        self.done["deleted"] += 1

    def _delete_by_force(self, name: str) -> None:
        path = f"{paths.pods(_NAMESPACE, name)}?gracePeriodSeconds=0"
        self._cluster.kubectl("delete", "--raw", path)
        self._forget(name)
        self.done["deleted by force"] += 1

    def _delete_claim_first(self, name: str) -> None:
        self._forget(name)
        self._remove(paths.pods(_NAMESPACE, name))
        self.done["claim deleted first"] += 1

    def _forget(self, name: str) -> None:
        """Delete what the pod's claim is made of; it goes when the pod is gone."""
        for path in (
            paths.resource_claims(_NAMESPACE, name),
            paths.resource_claim_templates(_NAMESPACE, name),
        ):
            self._remove(path)

    def _remove(self, path: str) -> None:
        with contextlib.suppress(NotFoundError, ConflictError):
            self._client.delete(path)
