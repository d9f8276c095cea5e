"""What webhooks are told about writes, and what their answers do."""

# ruff: noqa: D401 - scenes say what happens, as tests do

import base64
import json
from typing import Any

from tests.api_behaviour.server import JsonObject, Server
from tests.api_behaviour.webhooks import GROUP, MUTATING, NOBODY, VALIDATING, hooks_of


def _secret(name: str, **metadata: Any) -> JsonObject:
    return {"metadata": {"name": name, **metadata}, "data": {"key": "dmFsdWU="}}


def _allow(_path: str, _request: JsonObject) -> JsonObject:
    return {"allowed": True}


def _label(path: str, request: JsonObject) -> JsonObject:
    """Add a label that is named after the webhook."""
    if request["object"] is None:
        return {"allowed": True}
    key = path.removeprefix("/")
    labels = request["object"]["metadata"].get("labels", {})
    value = {**labels, key: str(len(labels))}
    patch = [{"op": "add", "path": "/metadata/labels", "value": value}]
    text = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


def changing(api: Server) -> None:
    """Webhooks change objects one after the other before they are stored."""
    secrets = api.at("secrets")
    with hooks_of(api, _label) as hooks:
        with hooks.configured(MUTATING, hooks.hook("one"), hooks.hook("two")):
            api.post("created", secrets, _secret("one"))
            api.post("generated", secrets, {"metadata": {"generateName": "generated-"}})
            api.put("updated", f"{secrets}/one", _secret("one"))
            api.patch("patched", f"{secrets}/one", {"data": {"other": "dmFsdWU="}})
            api.post("dry", secrets, _secret("dry"), {"dryRun": "All"})
            api.delete("deleted", f"{secrets}/one")
        api.tell("requests", hooks.seen)
    api.get("not there", f"{secrets}/dry")


def judging(api: Server) -> None:
    """Webhooks see the object as it will be stored, and the one before."""
    secrets = api.at("secrets")
    with hooks_of(api, _allow) as hooks:
        with hooks.configured(VALIDATING, hooks.hook("judge")):
            api.post("created", secrets, _secret("one"))
            api.post("generated", secrets, {"metadata": {"generateName": "generated-"}})
            api.put("updated", f"{secrets}/one", _secret("one", labels={"a": "b"}))
            api.patch("patched", f"{secrets}/one", {"data": {"other": "dmFsdWU="}})
            api.delete("deleted", f"{secrets}/one")
            api.post("invalid", secrets, _secret("Not a name"))
        api.tell("requests", hooks.seen)


def refusing(api: Server) -> None:
    """A refusal tells the webhook's own words behind those of the server."""
    statuses: dict[str, JsonObject] = {
        "plain": {},
        "message": {"message": "not today"},
        "code": {"message": "not today", "code": 422, "reason": "Invalid"},
        "reason": {"reason": "Forbidden", "code": 403},
        "success": {"code": 200, "message": "fine", "status": "Success"},
        "details": {
            "code": 409,
            "message": "not today",
            "details": {
                "name": "thing",
                "kind": "things",
                "causes": [{"reason": "FieldValueInvalid", "field": "data", "message": "odd"}],
            },
        },
    }

    def refuse(_path: str, request: JsonObject) -> JsonObject:
        status = statuses[request["name"]]
        told = {"status": status} if status else {}
        return {"allowed": False, "warnings": ['with a "warning"'], **told}

    secrets = api.at("secrets")
    with hooks_of(api, refuse) as hooks:
        for kind in (VALIDATING, MUTATING):
            with hooks.configured(kind, hooks.hook("never")):
                for name in statuses:
                    api.post(f"{kind} {name}", secrets, _secret(name))
    api.get("not there", f"{secrets}/plain")


def failing(api: Server) -> None:
    """What becomes of a write when a webhook cannot be asked is for its policy to say."""

    def odd(path: str, _request: JsonObject) -> JsonObject:
        return {"uid": "another", "allowed": True} if path == "/odd" else {"allowed": True}

    secrets = api.at("secrets")
    with hooks_of(api, odd) as hooks:
        for kind in (VALIDATING, MUTATING):
            for policy in ("Fail", "Ignore"):
                faults = {
                    "unreachable": hooks.hook("gone", url=NOBODY, failurePolicy=policy),
                    "other answer": hooks.hook("odd", failurePolicy=policy),
                }
                for fault, hook in faults.items():
                    label = f"{kind} {policy} {fault}"
                    with hooks.configured(kind, hook):
                        api.post(label, secrets, _secret(label.replace(" ", "-").lower()))


def selecting(api: Server) -> None:
    """Selectors, operations and resources say which writes a webhook sees."""

    def warn(path: str, _request: JsonObject) -> JsonObject:
        return {"allowed": True, "warnings": [f"seen at {path}"]}

    secrets = api.at("secrets")
    elsewhere = {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}
    not_here = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]},
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [api.namespace]},
        ]
    }
    labelled = {"matchExpressions": [{"key": "seen", "operator": "Exists"}]}
    with (
        hooks_of(api, warn) as hooks,
        # Those that judge are asked side by side, so that their warnings come in any order.
        hooks.configured(
            MUTATING,
            hooks.hook("elsewhere", namespaceSelector=elsewhere),
            hooks.hook("expressions", namespaceSelector=not_here),
            hooks.hook("labelled", objectSelector=labelled),
            hooks.hook("updates", operations=["UPDATE"]),
        ),
    ):
        api.post("created", secrets, _secret("one"))
        api.post("labelled", secrets, _secret("two", labels={"seen": "yes"}))
        api.patch("updated", f"{secrets}/one", {"data": {"other": "dmFsdWU="}})
        api.patch("label gone", f"{secrets}/two", {"metadata": {"labels": {"seen": None}}})
        api.delete("deleted", f"{secrets}/one")
        api.post("another resource", api.at("configmaps"), {"metadata": {"name": "map"}})


def configurations(api: Server) -> None:
    """Configurations are stored with defaults and counted when their webhooks change."""
    with hooks_of(api, _allow) as hooks:
        hook = hooks.hook("one", url="https://example.com/hook")
        del hook["clientConfig"]["caBundle"]
        for name in ("namespaceSelector", "objectSelector", "timeoutSeconds"):
            del hook[name]
        hook["rules"][0]["resources"] = ["nothings"]
        for kind in (VALIDATING, MUTATING):
            plural = f"{GROUP}/{kind.lower()}s"
            path = f"{plural}/{api.own('stored')}"
            body = {"metadata": {"name": api.own("stored")}, "webhooks": [hook]}
            api.post(f"{kind} created", plural, body)
            change = {"webhooks": [{**hook, "failurePolicy": "Ignore"}]}
            api.patch(f"{kind} changed", path, change)
            api.delete(f"{kind} deleted", path)
            for effects in ("Some", None):
                wrong = {**hook, "sideEffects": effects}
                body = {"metadata": {"name": api.own("wrong")}, "webhooks": [wrong]}
                api.post(f"{kind} side effects {effects}", plural, body)
