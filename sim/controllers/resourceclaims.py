"""The resource-claim controller: hears of pods, claims and templates, and queues what to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kube.objects import key_of
from sim.controllers.claim_generation import sync_pod
from sim.controllers.claim_release import sync_claim
from sim.controllers.following import follow
from sim.controllers.podclaims import claim_names, is_terminal
from sim.controllers.workqueue import WorkQueue

if TYPE_CHECKING:
    from kube.objects import JsonObject, ObjectKey
    from sim.apiserver.api import Api

_Work = tuple[str, str, str]
"""What to sync (`pod` or `claim`), namespace and name."""


async def run(api: Api) -> None:
    """Run the controller until cancelled."""
    controller = _Controller(api)
    async with asyncio.TaskGroup() as group:
        group.create_task(follow(api, "pods", controller.pod_seen, controller.pod_gone))
        group.create_task(
            follow(api, "resourceclaims", controller.claim_seen, controller.claim_gone)
        )
        group.create_task(
            follow(api, "resourceclaimtemplates", controller.template_seen, lambda _: None)
        )
        group.create_task(controller.work())


class _Controller:
    """Knows which pods use which claims and templates: only to tell what a change concerns."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._queue: WorkQueue[_Work] = WorkQueue("resource claims")
        self._pods: dict[ObjectKey, JsonObject] = {}

    async def work(self) -> None:
        await self._queue.run(self._sync)

    async def _sync(self, work: _Work) -> None:
        kind, namespace, name = work
        await (sync_pod if kind == "pod" else sync_claim)(self._api, namespace, name)

    def pod_seen(self, pod: JsonObject) -> None:
        if not pod["spec"].get("resourceClaims"):
            return
        key = key_of(pod)
        self._pods[key] = pod
        self._queue.add(("pod", key.namespace, key.name))
        if is_terminal(pod):
            self._release(pod)

    def pod_gone(self, pod: JsonObject) -> None:
        if self._pods.pop(key_of(pod), None) is not None:
            self._release(pod)

    def claim_seen(self, claim: JsonObject) -> None:
        key = key_of(claim)
        self._queue.add(("claim", key.namespace, key.name))
        self._tell_users(key)

    def claim_gone(self, claim: JsonObject) -> None:
        self._tell_users(key_of(claim))

    def template_seen(self, template: JsonObject) -> None:
        wanted = key_of(template)
        for key, pod in self._pods.items():
            named = [
                entry.get("resourceClaimTemplateName") for entry in pod["spec"]["resourceClaims"]
            ]
            if key.namespace == wanted.namespace and wanted.name in named:
                self._queue.add(("pod", key.namespace, key.name))

    def _release(self, pod: JsonObject) -> None:
        namespace = pod["metadata"]["namespace"]
        for name in claim_names(pod).values():
            if name is not None:
                self._queue.add(("claim", namespace, name))

    def _tell_users(self, claim: ObjectKey) -> None:
        for key, pod in self._pods.items():
            if key.namespace == claim.namespace and claim.name in claim_names(pod).values():
                self._queue.add(("pod", key.namespace, key.name))
