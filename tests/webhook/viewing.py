"""A view of a simulated cluster, and objects for it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jsonpatch

from kube.objects import JsonObject
from kube.reflector import Pace
from tests.fakes.api_server import ServerThread
from tests.patience import eventually
from tests.webhook.translating import a_container, a_pod, translated
from webhook.facts import ClusterFacts
from webhook.view import ClusterView

KEYS = frozenset({"nvidia.com/gpu", "nvidia.com/gpumem"})
FAST = Pace(first_wait_s=0.01, max_wait_s=0.05, missing_wait_s=0.1)
FACTS = ClusterFacts(gpus_by_memory_mib={24564: 1}, counts_are_distinct=True)


@contextmanager
def viewing(server: ServerThread, *, wait: bool = True, **options: Any) -> Iterator[ClusterView]:
    """Run a view, and wait until it knows all."""
    client = server.client("webhook")
    view = ClusterView(client, resource_keys=KEYS, **({"pace": FAST} | options))
    view.start()
    try:
        if wait:
            eventually(view.synced)
        yield view
    finally:
        view.stop()
        client.close()


def create(server: ServerThread, plural: str, item: JsonObject) -> JsonObject:
    """Create an object as an administrator, in its namespace."""
    namespace = item["metadata"].get("namespace")
    made: JsonObject = server.run(server.server.api.create(plural, item, namespace))
    return made


def get(server: ServerThread, plural: str, name: str, namespace: str = "default") -> JsonObject:
    """Return an object."""
    found: JsonObject = server.run(server.server.api.get(plural, name, namespace))
    return found


def names(server: ServerThread, plural: str, namespace: str = "default") -> list[str]:
    """Return the names of the objects of a namespace."""
    items, _ = server.run(server.server.api.list(plural, namespace))
    return sorted(item["metadata"]["name"] for item in items)


def a_translated_pod(
    name: str = "pod", namespace: str = "default", amounts: Mapping[str, int] | None = None
) -> JsonObject:
    """Return a pod as admission leaves it."""
    pod = a_pod(a_container("main", **(amounts or {"gpu": 1, "gpumem": 4000})))
    pod["metadata"] = {"name": name, "namespace": namespace}
    patch = list(translated(pod, FACTS).patch)
    made: JsonObject = jsonpatch.apply_patch(pod, patch)
    return made


def templates_of(pod: JsonObject) -> list[str]:
    """Return the templates that a pod names."""
    return sorted(each["resourceClaimTemplateName"] for each in pod["spec"]["resourceClaims"])


SLOW = replace(FAST, missing_wait_s=60.0)
