"""The real kubectl against a server: what people see of it."""

import json
from collections.abc import Callable
from typing import Final

from tests.api_behaviour.scenes.objects import allocated, claim, pod, request, resource_slice
from tests.api_behaviour.server import JsonObject, Server

_DRA: Final = "resource.k8s.io/v1"
_MIXED: Final = "NAME:.metadata.name,KIND:.kind,VERSION:.apiVersion"


def _objects(api: Server) -> dict[str, JsonObject]:
    """Return one object of each kind that the driver has to do with."""
    own = api.own("one")
    node = {"metadata": {"name": own, "labels": {"mine": api.namespace}}}
    spec = {"spec": claim()["spec"]}
    driver = {"driver": f"{api.namespace}.example.com"}
    return {
        "node": {"apiVersion": "v1", "kind": "Node", **node},
        "pod": {"apiVersion": "v1", "kind": "Pod", **pod("one")},
        "resourceclaim": {"apiVersion": _DRA, "kind": "ResourceClaim", **claim("one")},
        "resourceclaimtemplate": {
            "apiVersion": _DRA,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one"},
            "spec": spec,
        },
        "deviceclass": {
            "apiVersion": _DRA,
            "kind": "DeviceClass",
            "metadata": {"name": own},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'a'"}}]},
        },
        "resourceslice": {
            "apiVersion": _DRA,
            "kind": "ResourceSlice",
            **resource_slice(own, **driver),
        },
    }


def _apply(api: Server, label: str, obj: JsonObject, *flags: str) -> None:
    api.run_kubectl(label, "apply", *flags, "-f", "-", stdin=json.dumps(obj))


def _cleared(api: Server) -> None:
    for kind in ("node", "deviceclass", "resourceslice"):
        assert api.kubectl is not None
        api.kubectl(["delete", kind, api.own("one"), "--ignore-not-found"], None)


def getting(api: Server) -> None:
    """`get` prints tables, wide ones, YAML and columns of one's own choice."""
    for kind, obj in _objects(api).items():
        name = obj["metadata"]["name"]
        _apply(api, f"{kind} applied", obj)
        api.run_kubectl(f"{kind}", "get", kind, name)
        api.run_kubectl(f"{kind} wide", "get", kind, name, "-o", "wide")
        api.run_kubectl(f"{kind} name", "get", kind, name, "-o", "name")
        if kind != "node":
            api.run_kubectl(f"{kind} yaml", "get", kind, name, "-o", "yaml")
        api.run_kubectl(f"{kind} columns", "get", kind, name, "-o", f"custom-columns={_MIXED}")
    api.run_kubectl("none", "get", "pod", "none")
    api.run_kubectl("no kind", "get", "nonsense")
    api.run_kubectl("short", "get", "po", "--show-labels")
    api.run_kubectl("empty", "get", "resourceclaims", "-l", "a=b")
    _cleared(api)


def describing(api: Server) -> None:
    """`describe` shows every kind, with its events."""
    for kind, obj in _objects(api).items():
        if kind in {"node", "pod"}:
            continue
        _apply(api, f"{kind} applied", obj)
        api.run_kubectl(kind, "describe", kind, obj["metadata"]["name"])
    stored = api.send("", "GET", api.dra("resourceclaims", "one"))
    api.send("", "PUT", api.dra("resourceclaims", "one", "status"), allocated(stored))
    api.run_kubectl("allocated claim", "describe", "resourceclaim", "one")
    _cleared(api)


def describing_pods(api: Server) -> None:
    """`describe` of pods and nodes gathers what it needs from several resources."""
    _apply(api, "pod applied", _objects(api)["pod"])
    api.run_kubectl("pod", "describe", "pod", "one")
    _apply(api, "node applied", _objects(api)["node"])
    # Controllers of a real cluster are at work on these meanwhile.
    changing_ = ("Annotations:", "Taints:")
    api.run_kubectl("node", "describe", "node", api.own("one"), without=changing_)
    _cleared(api)


def applying(api: Server) -> None:
    """`apply` creates, says so when nothing changes, changes, and is refused where it must be."""
    objects = _objects(api)
    for kind, obj in objects.items():
        _apply(api, f"{kind} created", obj)
        _apply(api, f"{kind} unchanged", obj)
        labelled = {**obj, "metadata": {**obj["metadata"], "labels": {"a": "b"}}}
        _apply(api, f"{kind} changed", labelled)
    wrong = {**objects["resourceclaim"], **claim("one", request(count=2))}
    _apply(api, "immutable", wrong)
    _apply(api, "unknown field", {**objects["pod"], "nonsense": 1})
    _apply(api, "tried", {**objects["pod"], "metadata": {"name": "two"}}, "--dry-run=server")
    server = {**objects["resourceclaim"], "metadata": {"name": "three"}}
    _apply(api, "by the server", server, "--server-side")
    _apply(api, "by the server again", server, "--server-side")
    _cleared(api)


def changing(api: Server) -> None:
    """`patch`, `label` and `annotate` change an object in each format."""
    for kind, obj in _objects(api).items():
        name = obj["metadata"]["name"]
        _apply(api, f"{kind} applied", obj)
        api.run_kubectl(f"{kind} labelled", "label", kind, name, "a=b")
        api.run_kubectl(f"{kind} labelled again", "label", kind, name, "a=c")
        api.run_kubectl(f"{kind} unlabelled", "label", kind, name, "a-")
        patch = json.dumps({"metadata": {"labels": {"c": "d"}}})
        api.run_kubectl(f"{kind} patched", "patch", kind, name, "-p", patch)
        api.run_kubectl(f"{kind} merged", "patch", kind, name, "--type=merge", "-p", patch)
        operation = json.dumps([{"op": "remove", "path": "/metadata/labels/c"}])
        api.run_kubectl(f"{kind} edited", "patch", kind, name, "--type=json", "-p", operation)
    _cleared(api)


def deleting(api: Server) -> None:
    """`delete` waits until the object has gone, and says when there was none."""
    for kind, obj in _objects(api).items():
        name = obj["metadata"]["name"]
        _apply(api, f"{kind} applied", obj)
        api.run_kubectl(f"{kind} deleted", "delete", kind, name, "--wait=true")
        api.run_kubectl(f"{kind} again", "delete", kind, name)
    _apply(api, "claim applied", _objects(api)["resourceclaim"])
    api.run_kubectl("in the foreground", "delete", "resourceclaim", "one", "--cascade=foreground")
    _apply(api, "claim applied again", _objects(api)["resourceclaim"])
    api.run_kubectl("all", "delete", "resourceclaims", "--all")


SCENES: Final[dict[str, Callable[[Server], None]]] = {
    f"kubectl/{scene.__name__}": scene
    for scene in (getting, describing, describing_pods, applying, changing, deleting)
}
