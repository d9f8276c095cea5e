"""Requests to the API server from the loop: in threads of their own, counted, never cut short.

Whoever waits for one may not be cancelled in between: whether a write that was under way has
happened could not be told.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from extender.metrics import Metrics
from extender.parts import NodeFacts, PodFacts
from hami import keys
from hami.vendors import Lock
from kube.client import MERGE_PATCH, Client
from kube.objects import JsonObject
from kube.paths import nodes, pods, resource

_THREADS: Final = 16
"""As many connections as the client keeps."""
_LOCKS: Final = (Lock.SHARED, Lock.CAMBRICON)
POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""A pod's label."""
_T = TypeVar("_T")


class Calls:
    """What the extender asks of the API server on behalf of single pods; raises `KubeError`."""

    def __init__(self, client: Client, metrics: Metrics) -> None:
        self._client, self._counts = client, metrics.api_calls
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="api-call")

    def close(self) -> None:
        """Take no more calls; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def node(self, name: str) -> NodeFacts:
        """Return what a lock must know of a node."""
        return facts_of(json.loads(await self._call("get node", self._client.get, nodes(name))))

    async def annotate_node(
        self,
        name: str,
        annotations: Mapping[Lock, str] | Mapping[Lock, None],
        resource_version: str,
    ) -> NodeFacts:
        """Change *annotations* of a node that is still at *resource_version*."""
        metadata = {"annotations": dict(annotations), "resourceVersion": resource_version}
        patched = await self._patch("patch node", nodes(name), {"metadata": metadata})
        return facts_of(json.loads(patched))

    async def pod(self, namespace: str, name: str) -> PodFacts:
        """Return what is known of a pod at this moment."""
        return pod_facts(await self.raw_pod(namespace, name))

    async def raw_pod(self, namespace: str, name: str) -> JsonObject:
        """Return a pod as the API server keeps it."""
        path = pods(namespace, name)
        pod: JsonObject = json.loads(await self._call("get pod", self._client.get, path))
        return pod

    async def change_pod(self, namespace: str, name: str, metadata: JsonObject) -> JsonObject:
        """Merge *metadata* into a pod and return it; UID and version in there are conditions."""
        patched = await self._patch("patch pod", pods(namespace, name), {"metadata": metadata})
        pod: JsonObject = json.loads(patched)
        return pod

    async def bind(self, pod: JsonObject, node: str) -> None:
        """Bind a *pod* that is still as it was read: its UID and version are conditions."""
        kept = ("namespace", "name", "uid", "resourceVersion")
        metadata = {key: pod["metadata"][key] for key in kept}
        namespace, name = metadata["namespace"], metadata["name"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._call("bind pod", self._client.create, pods(namespace, name, "binding"), body)

    async def review_token(self, token: str, audiences: tuple[str, ...]) -> JsonObject:
        """Return the status of a TokenReview."""
        spec: JsonObject = {"token": token}
        if audiences:
            spec["audiences"] = list(audiences)
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        path = resource("authentication.k8s.io/v1", "tokenreviews")
        said = json.loads(await self._call("review token", self._client.create, path, body))
        status = said.get("status")
        return status if isinstance(status, dict) else {}

    async def _patch(self, call: str, path: str, body: JsonObject) -> bytes:
        return await self._call(
            call, partial(self._client.patch, content_type=MERGE_PATCH), path, body
        )

    async def _call(self, call: str, function: Callable[..., _T], *arguments: Any) -> _T:
        self._counts.labels(call).inc()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(function, *arguments))


def pod_facts(said: JsonObject) -> PodFacts:
    """Read a pod as the API server keeps it."""
    metadata, spec, status = said["metadata"], said.get("spec") or {}, said.get("status") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    group = spec.get("schedulingGroup") or {}
    return PodFacts(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "",
        bind_phase=annotations.get(keys.BIND_PHASE, ""),
        is_terminating="deletionTimestamp" in metadata,
        group=labels.get(POD_GROUP) or group.get("podGroupName") or "",
    )


def facts_of(node: JsonObject) -> NodeFacts:
    """Read a node."""
    metadata = node["metadata"]
    annotations = metadata.get("annotations") or {}
    return NodeFacts(
        name=metadata["name"],
        resource_version=str(metadata.get("resourceVersion", "")),
        locks={each: annotations[each] for each in _LOCKS if annotations.get(each)},
    )
