"""Webhooks on second thoughts, bindings, quotas, and who may do what."""

# ruff: noqa: D401 - scenes say what happens, as tests do

import base64
import json
from typing import Any, Final

from tests.api_behaviour.scenes.objects import pod
from tests.api_behaviour.server import JsonObject, Server
from tests.api_behaviour.webhooks import GROUP, MUTATING, VALIDATING, hooks_of

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def _secret(name: str, **metadata: Any) -> JsonObject:
    return {"metadata": {"name": name, **metadata}, "data": {"key": "dmFsdWU="}}


def _warn(path: str, _request: JsonObject) -> JsonObject:
    return {"allowed": True, "warnings": [f"seen at {path}"]}


def _conditions(*expressions: str) -> list[JsonObject]:
    return [
        {"name": f"condition-{index}", "expression": text} for index, text in enumerate(expressions)
    ]


def conditions(api: Server) -> None:
    """Conditions keep a webhook out; one that fails counts as the failure policy says."""
    marked = "object != null && has(object.metadata.annotations)"
    fails = "object.data.nothing == 'a'"
    cases: dict[str, JsonObject] = {
        "marked": {"matchConditions": _conditions(marked)},
        "created": {"matchConditions": _conditions("request.operation == 'CREATE'")},
        "first": {"matchConditions": _conditions("oldObject == null", "object != null")},
        "named": {"matchConditions": _conditions("request.name.startsWith('on')")},
        "user": {"matchConditions": _conditions("'nobody' in request.userInfo.groups")},
        "false-wins": {"matchConditions": _conditions(fails, "false")},
        "ignored": {"matchConditions": _conditions(fails), "failurePolicy": "Ignore"},
    }
    secrets = api.at("secrets")
    with hooks_of(api, _warn) as hooks:
        every = [hooks.hook(name, **fields) for name, fields in cases.items()]
        # Those that change are asked one after the other, so that warnings come in order.
        with hooks.configured(MUTATING, *every):
            api.post("plain", secrets, _secret("one"))
            api.post("with a mark", secrets, _secret("two", annotations={"mark": "yes"}))
            api.patch("changed", f"{secrets}/one", {"data": {"other": "dmFsdWU="}})
            api.delete("deleted", f"{secrets}/two")
        for kind in (MUTATING, VALIDATING):
            failing = hooks.hook("failing", matchConditions=_conditions(fails))
            with hooks.configured(kind, failing):
                api.post(f"{kind} that fails", secrets, _secret("three"))


def wrong_conditions(api: Server) -> None:
    """Conditions that make no sense are refused with the configuration."""
    cases: dict[str, list[JsonObject]] = {
        "unknown name": _conditions("nothing == 1"),
        "no expression": _conditions("  "),
        "no grammar": _conditions("object."),
        "a text": _conditions("'text'"),
        "anything": _conditions("object.data"),
        "without a name": [{"name": "", "expression": "true"}],
        "twice": [{"name": "one", "expression": "true"}] * 2,
        "too many": [{"name": f"n-{each}", "expression": "true"} for each in range(65)],
    }
    with hooks_of(api, _warn) as hooks:
        for label, wrong in cases.items():
            hook = hooks.hook("one", url="https://example.com/hook", matchConditions=wrong)
            del hook["clientConfig"]["caBundle"]
            body = {"metadata": {"name": api.own("wrong")}, "webhooks": [hook]}
            path = f"{GROUP}/{VALIDATING.lower()}s"
            found = api.send("", "POST", path, body)
            # The message of a refusal shows the whole webhook; the causes say what is wrong.
            causes = found.get("details", {}).get("causes", [])
            told = [[each["reason"], each["field"]] for each in causes]
            api.tell(label, {"code": found.get("code"), "causes": told})


def asking_again(api: Server) -> None:
    """A webhook is asked again when a later one has changed the object, if it wants that."""

    def count(path: str, request: JsonObject) -> JsonObject:
        labels = request["object"]["metadata"].get("labels", {})
        key = path.removeprefix("/").split("-")[0]
        if path.endswith("-once") and key in labels:
            return {"allowed": True, "warnings": [f"{path} was content"]}
        value = {**labels, key: str(int(labels.get(key, "0")) + 1)}
        patch = [{"op": "add", "path": "/metadata/labels", "value": value}]
        text = base64.b64encode(json.dumps(patch).encode()).decode()
        told = {"patchType": "JSONPatch", "patch": text}
        return {"allowed": True, "warnings": [f"{path} saw {sorted(labels.items())}"], **told}

    secrets = api.at("secrets")
    again = {"reinvocationPolicy": "IfNeeded"}
    with hooks_of(api, count) as hooks:
        chains = {
            "first again": (hooks.hook("a", **again), hooks.hook("b")),
            "last again": (hooks.hook("a"), hooks.hook("b", **again)),
            "both again": (hooks.hook("a", **again), hooks.hook("b", **again)),
            "content": (hooks.hook("a-once", **again), hooks.hook("b-once", **again)),
            "three": (
                hooks.hook("a", **again),
                hooks.hook("b"),
                hooks.hook("c-once", **again),
            ),
        }
        for label, chain in chains.items():
            with hooks.configured(MUTATING, *chain):
                api.post(label, secrets, _secret(label.replace(" ", "-")))


def long_warnings(api: Server) -> None:
    """Warnings are told once each, cut when all are too long, lost with control characters."""
    texts: dict[str, list[str]] = {
        "repeated": ["same", "same", "other"],
        "lines": ["first\nsecond", "kept"],
        "signs": ['a "quoted" back\\slash', "ümläut"],
        "too-long": ["a" * 3000, "b" * 1000, "c" * 1000],
        "far-too-long": [f"{each:03}{'d' * 300}" for each in range(20)],
    }

    def warn(_path: str, request: JsonObject) -> JsonObject:
        return {"allowed": True, "warnings": texts[request["name"]]}

    secrets = api.at("secrets")
    with hooks_of(api, warn) as hooks, hooks.configured(VALIDATING, hooks.hook("warns")):
        for name in texts:
            api.post(name, secrets, _secret(name))


def bindings(api: Server) -> None:
    """Webhooks see bindings, and what a binding is marked with goes to the pod."""

    def mark(_path: str, request: JsonObject) -> JsonObject:
        marks = request["object"]["metadata"].get("annotations", {})
        patch = [{"op": "add", "path": "/metadata/annotations", "value": {**marks, "seen": "yes"}}]
        text = base64.b64encode(json.dumps(patch).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": text}

    pods = api.at("pods")
    target = {"kind": "Node", "name": "nowhere"}

    def binding(name: str, **metadata: Any) -> JsonObject:
        return {"metadata": {"name": name, **metadata}, "target": target}

    with hooks_of(api, mark) as hooks:
        # Nobody else binds pods of this namespace: they name a scheduler that there is not.
        rule = {"resources": ["pods/binding"], "operations": ["CREATE"]}
        hook = hooks.hook("binds")
        hook["rules"][0] |= rule
        marks = {"annotations": {"from": "binding"}, "labels": {"from": "binding"}}
        with hooks.configured(MUTATING, hook):
            api.send("", "POST", pods, pod("one", schedulerName="nobody"))
            path = f"{pods}/one/binding"
            api.post("dry", path, binding("one", **marks), {"dryRun": "All"})
            api.post("another identity", path, binding("one", uid="0" * 8))
            api.post("bound", path, binding("one", **marks))
            api.post("bound again", path, binding("one"))
        api.tell("requests", hooks.seen)
    found = api.send("", "GET", f"{pods}/one")
    told = {key: found["metadata"].get(key) for key in ("annotations", "labels")}
    api.tell("marks", {**told, "node": found["spec"].get("nodeName")})


def access(api: Server) -> None:
    """Who may do what is told without being done."""
    nodes = {"verb": "patch", "resource": "nodes"}
    cases: dict[str, JsonObject] = {
        "nobody": {"user": "nobody", "resourceAttributes": nodes},
        "nobody's group": {"user": "nobody", "groups": ["any"], "resourceAttributes": nodes},
        "administrators": {"groups": ["system:masters"], "resourceAttributes": nodes},
        "no resource": {"user": "nobody", "nonResourceAttributes": {"path": "/", "verb": "get"}},
        "nothing": {"user": "nobody"},
        "both": {
            "user": "nobody",
            "resourceAttributes": nodes,
            "nonResourceAttributes": {"path": "/", "verb": "get"},
        },
        "no subject": {"resourceAttributes": nodes},
    }
    for label, spec in cases.items():
        api.post(label, _REVIEWS, {"spec": spec})
    for label, method in {"list": "GET", "delete": "DELETE"}.items():
        api.send(label, method, _REVIEWS)


def quotas(api: Server) -> None:
    """Quotas may limit anything that has a domain; amounts are quantities of at least nothing."""
    path = api.at("resourcequotas")

    def quota(name: str, **hard: str) -> JsonObject:
        return {"metadata": {"name": name}, "spec": {"hard": hard}}

    labels: dict[str, JsonObject] = {
        "limits": quota("one", **{"limits.nvidia.com/gpumem": "20480"}),
        "requests": quota("two", **{"requests.nvidia.com/gpu": "5"}),
        "canonical": quota("three", **{"limits.nvidia.com/gpumem": "1024k"}),
        "negative": quota("four", **{"limits.nvidia.com/gpumem": "-1"}),
        "fraction": quota("five", **{"requests.nvidia.com/gpu": "500m"}),
        "no quantity": quota("six", **{"limits.nvidia.com/gpumem": "many"}),
        "without a domain": quota("seven", gpumem="1"),
        "empty": {"metadata": {"name": "eight"}},
    }
    for label, body in labels.items():
        # A dry run is seen by no controller, which would count and write.
        api.post(label, path, body, {"dryRun": "All"})
    api.send("", "POST", path, quota("stored", **{"limits.nvidia.com/gpumem": "1"}))
    hard = {"limits.nvidia.com/gpumem": "2"}
    found = api.send("", "PATCH", f"{path}/stored", {"spec": {"hard": hard}}, headers=_MERGE)
    api.tell("changed", found["spec"])
    used = {"hard": hard, "used": {"limits.nvidia.com/gpumem": "1"}}
    found = api.send("", "PATCH", f"{path}/stored/status", {"status": used}, headers=_MERGE)
    api.tell("used", found["status"]["used"].get("limits.nvidia.com/gpumem"))


_MERGE: Final = {"Content-Type": "application/merge-patch+json"}
