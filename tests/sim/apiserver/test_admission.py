"""Webhooks on the simulated server alone: what scenes on both servers cannot bring about."""

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from sim.apiserver import users
from sim.apiserver.api import APPLY_PATCH
from sim.apiserver.json_values import JsonObject
from tests.cluster.webhook_server import Answer, webhook_server
from tests.sim.apiserver.builders import PODS, Served, configmap, pod, refused, served

MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"


def hook(url: str, authority: bytes, *resources: str) -> JsonObject:
    """Return a configuration with one webhook for all writes of *resources*."""
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}
    config = {"url": url, "caBundle": base64.b64encode(authority).decode()}
    webhook = {
        "name": "hook.gpuslice.test",
        "clientConfig": config,
        "rules": [{**rule, "resources": list(resources)}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": "hook"}, "webhooks": [webhook]}


def hooked(
    folder: Path,
    answer: Answer,
    scene: Callable[[Served, JsonObject], Coroutine[Any, Any, None]],
    *resources: str,
) -> None:
    """Run *scene* with a configuration that asks *answer* about *resources*."""
    with webhook_server("127.0.0.1", "127.0.0.1", folder, answer) as (port, authority):
        configuration = hook(f"https://127.0.0.1:{port}/hook", authority, *resources)

        async def run(at: Served) -> None:
            await scene(at, configuration)

        served(run)


def patch_of(*operations: JsonObject) -> JsonObject:
    """Return a response that changes the object."""
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


def test_applied_object_keeps_its_owner_when_a_webhook_changes_it(tmp_path: Path) -> None:
    """An apply that creates an object owns what it said, also behind a webhook that changes it."""

    def label(_path: str, _request: JsonObject) -> JsonObject:
        return patch_of({"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}})

    async def scene(at: Served, configuration: JsonObject) -> None:
        await at.api.create(MUTATING, configuration)
        path = "/api/v1/namespaces/default/configmaps/map?fieldManager=me"
        body = {"apiVersion": "v1", "kind": "ConfigMap", **configmap()}
        status, created = await at.wire.patch(path, body, APPLY_PATCH)
        assert status == 201
        assert created["metadata"]["labels"] == {"seen": "yes"}
        assert [each["manager"] for each in created["metadata"]["managedFields"]] == ["me"]

    hooked(tmp_path, label, scene, "configmaps")


def test_write_starts_again_when_the_object_has_changed_meanwhile(tmp_path: Path) -> None:
    """A patch does not undo what was written while a webhook was asked about it."""
    asked: list[JsonObject] = []

    async def scene(at: Served, configuration: JsonObject) -> None:
        await at.api.create("configmaps", configmap(), "default")
        await at.api.create(VALIDATING, configuration)

        async def other() -> None:
            await at.api.patch(
                "configmaps", "map", {"data": {"other": "value"}}, namespace="default"
            )

        mine = at.api.patch("configmaps", "map", {"data": {"mine": "value"}}, namespace="default")
        await asyncio.gather(mine, other())
        stored = await at.api.get("configmaps", "map", "default")
        assert stored["data"] == {"key": "value", "mine": "value", "other": "value"}

    def note(_path: str, request: JsonObject) -> JsonObject:
        asked.append(request)
        return {"allowed": True}

    hooked(tmp_path, note, scene, "configmaps")
    # The one that came second was asked about again, with what the first had stored.
    assert len(asked) == 3
    assert len(asked[-1]["oldObject"]["data"]) == 2


def test_binding_is_a_subresource(tmp_path: Path) -> None:
    """A rule for all of pods sees bindings as their own kind, one for pods does not."""
    asked: list[JsonObject] = []

    async def scene(at: Served, configuration: JsonObject) -> None:
        await at.api.create("pods", pod(), "default")
        await at.api.create(VALIDATING, configuration)
        binding = {"metadata": {"name": "pod"}, "target": {"kind": "Node", "name": "node-a"}}
        status, _ = await at.wire.post(f"{PODS}/pod/binding", binding)
        assert status == 201

    def note(_path: str, request: JsonObject) -> JsonObject:
        asked.append(request)
        return {"allowed": True}

    hooked(tmp_path, note, scene, "pods/*")
    assert [(each["kind"]["kind"], each["subResource"]) for each in asked] == [
        ("Binding", "binding")
    ]
    assert asked[0]["userInfo"]["username"] == "tester"
    hooked(tmp_path, note, scene, "pods")
    assert len(asked) == 1


def test_deletion_can_be_refused(tmp_path: Path) -> None:
    """Objects that a webhook keeps stay, one by one or as a collection."""

    def refuse(_path: str, _request: JsonObject) -> JsonObject:
        return {"allowed": False, "status": {"message": "stays"}}

    async def scene(at: Served, configuration: JsonObject) -> None:
        await at.api.create("configmaps", configmap(), "default")
        await at.api.create(VALIDATING, configuration)
        error = await refused(at.api.delete("configmaps", "map", "default"))
        assert error.message == ('admission webhook "hook.gpuslice.test" denied the request: stays')
        status, _ = await at.wire.delete("/api/v1/namespaces/default/configmaps")
        assert status == error.code == 400
        assert (await at.api.get("configmaps", "map", "default"))["data"]

    hooked(tmp_path, refuse, scene, "configmaps")


def test_nobody_is_locked_out(tmp_path: Path) -> None:
    """A webhook that refuses everything is not asked about configurations."""

    def refuse(_path: str, _request: JsonObject) -> JsonObject:
        return {"allowed": False}

    async def scene(at: Served, configuration: JsonObject) -> None:
        await at.api.create(VALIDATING, configuration)
        await refused(at.api.create("configmaps", configmap(), "default"))
        await at.api.delete(VALIDATING, "hook")
        await at.api.create("configmaps", configmap(), "default")

    hooked(tmp_path, refuse, scene, "*/*")


def test_webhook_of_another_authority_is_not_believed(tmp_path: Path) -> None:
    """An answer over TLS counts only if the bundle vouches for who gave it."""
    (tmp_path / "other").mkdir()

    def allow(_path: str, _request: JsonObject) -> JsonObject:
        return {"allowed": True}

    async def scene(at: Served, configuration: JsonObject) -> None:
        with webhook_server("127.0.0.1", "127.0.0.1", tmp_path / "other", allow) as (_, other):
            bundle = base64.b64encode(other).decode()
            configuration["webhooks"][0]["clientConfig"]["caBundle"] = bundle
            await at.api.create(VALIDATING, configuration)
            error = await refused(at.api.create("configmaps", configmap(), "default"))
        assert error.code == 500
        assert "certificate signed by unknown authority" in error.message

    hooked(tmp_path, allow, scene, "configmaps")


def test_service_leads_nowhere() -> None:
    """There is no network of services, so a webhook behind one fails as its policy says."""

    async def scene(at: Served) -> None:
        configuration = hook("", b"", "configmaps")
        service = {"name": "hook", "namespace": "default"}
        configuration["webhooks"][0]["clientConfig"] = {"service": service}
        await at.api.create(VALIDATING, configuration)
        error = await refused(at.api.create("configmaps", configmap(), "default"))
        assert error.message == (
            'Internal error occurred: failed calling webhook "hook.gpuslice.test": '
            'failed to call webhook: service "hook" not found'
        )
        configuration["webhooks"][0]["failurePolicy"] = "Ignore"
        await at.api.update(VALIDATING, configuration)
        await at.api.create("configmaps", configmap(), "default")

    served(scene)


def test_components_write_as_the_users_that_they_are(tmp_path: Path) -> None:
    """A webhook hears who writes in the process, with the groups that the real server gives."""
    asked: list[JsonObject] = []

    async def scene(at: Served, configuration: JsonObject) -> None:
        await at.api.create(MUTATING, configuration)
        for user in (users.SCHEDULER, users.CLAIM_CONTROLLER, users.node_user("node-a")):
            name = user.rpartition(":")[2]
            await at.api.as_user(user).create("configmaps", configmap(name), "default")
        await at.api.create("configmaps", configmap(), "default")

    def note(_path: str, request: JsonObject) -> JsonObject:
        asked.append(request["userInfo"])
        return {"allowed": True}

    hooked(tmp_path, note, scene, "configmaps")
    assert [each["username"] for each in asked] == [
        "system:kube-scheduler",
        "system:serviceaccount:kube-system:resource-claim-controller",
        "system:node:node-a",
        "system:simulation",
    ]
    assert "system:serviceaccounts:kube-system" in asked[1]["groups"]
    assert "system:nodes" in asked[2]["groups"]
    assert "system:masters" in asked[3]["groups"]


def test_access_is_what_was_granted() -> None:
    """A review allows what was granted to the user or one of his groups, until it is withdrawn."""

    async def allowed(at: Served, verb: str, **subject: Any) -> bool:
        attributes = {"verb": verb, "resource": "nodes"}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        spec = {"resourceAttributes": attributes, **subject}
        status, review = await at.wire.post(path, {"spec": spec})
        assert status == 201
        return bool(review["status"]["allowed"])

    async def scene(at: Served) -> None:
        at.server.grant("plugin", "patch", "nodes")
        at.server.grant("system:nodes", "*", "*")
        assert await allowed(at, "patch", user="plugin")
        assert not await allowed(at, "delete", user="plugin")
        assert not await allowed(at, "patch", user="other")
        assert await allowed(at, "delete", user="other", groups=["system:nodes"])
        at.server.withdraw("plugin", "patch", "nodes")
        assert not await allowed(at, "patch", user="plugin")

    served(scene)
