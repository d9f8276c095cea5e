"""Lists are narrowed by labels and fields and come in pages."""

# ruff: noqa: D401 - scenes say what happens, as tests do

from tests.api_behaviour.scenes.objects import pod, resource_slice
from tests.api_behaviour.scenes.writing import config
from tests.api_behaviour.server import Server

_LABELS = ("a=b", "a==b", "a!=b", "a in (b,c)", "a notin (b)", "a", "!a", "a=b,c", "a=,c")
_WRONG_LABELS = ("a in b", "=b", "a in ()", "a b", "a=b c", "a/b/c=d", "a=-")


def _names(api: Server, label: str, path: str, **params: str) -> None:
    found = api.send("", "GET", path, params=params)
    items = found.get("items")
    names = [item["metadata"]["name"] for item in items] if items is not None else found
    api.tell(label, names)


def labels(api: Server) -> None:
    """Every form of a label selector selects the same objects."""
    path = api.at("configmaps")
    given = {"one": {"a": "b"}, "two": {"a": "c", "c": ""}, "three": {"a": ""}, "four": {}}
    for name, labels_ in given.items():
        api.send("", "POST", path, config(name, labels={**labels_, "mine": "yes"}))
    for text in _LABELS:
        _names(api, text, path, labelSelector=f"mine,{text}")
    for text in _WRONG_LABELS:
        api.get(f"wrong: {text}", path, {"labelSelector": text})


def fields(api: Server) -> None:
    """Each resource can be selected by few fields; any other is a 400."""
    for name, node in (("one", "node-x"), ("two", "node-y")):
        api.send("", "POST", api.at("pods"), pod(name, nodeName=node))
        api.send("", "POST", api.dra("resourceslices"), resource_slice(api.own(name), node))
    pods, slices = api.at("pods"), api.dra("resourceslices")
    _names(api, "node", pods, fieldSelector="spec.nodeName=node-x")
    _names(api, "not the node", pods, fieldSelector="spec.nodeName!=node-x")
    _names(api, "both", pods, fieldSelector="spec.nodeName=node-x,metadata.name=two")
    _names(api, "phase", pods, fieldSelector="status.phase==Pending")
    mine = f"spec.driver={api.namespace}.example.com"
    _names(api, "slices of a node", slices, fieldSelector=f"{mine},spec.nodeName=node-y")
    for text in ("spec.hostname=a", "spec.nodeName", "spec.nodeName in (a)", "nonsense=1"):
        api.get(f"wrong: {text}", pods, {"fieldSelector": text})
    api.get("pool", slices, {"fieldSelector": "spec.pool.name=a"})
    api.get("device", slices, {"fieldSelector": "spec.devices=a"})
    for plural in ("resourceclaims", "resourceclaimtemplates", "deviceclasses"):
        api.get(plural, api.dra(plural), {"fieldSelector": "spec.devices=a"})
        _names(api, f"name of {plural}", api.dra(plural), fieldSelector="metadata.name=none")
    for name in ("one", "two"):
        api.send("", "DELETE", api.at("pods", name), {"gracePeriodSeconds": 0})
        api.send("", "DELETE", api.dra("resourceslices", api.own(name)))


def pages(api: Server) -> None:
    """A long list comes in pages that all show the state of the first."""
    path = api.at("configmaps")
    for number in range(5):
        api.send("", "POST", path, config(f"map-{number}", labels={"mine": "yes"}))
    mine = {"labelSelector": "mine", "limit": "2"}
    page = api.get("first", path, mine)
    api.send("", "DELETE", f"{path}/map-3")
    page = api.get("second", path, {**mine, "continue": page["metadata"]["continue"]})
    api.get("last", path, {**mine, "continue": page["metadata"]["continue"]})
    api.get("no token", path, {"limit": "2", "continue": "nonsense"})
    api.get("no number", path, {"limit": "many"})
    secrets = api.at("secrets")
    for number in range(3):
        api.send("", "POST", secrets, {"metadata": {"name": f"secret-{number}"}})
    api.get("how many are left", secrets, {"limit": "1"})
    api.get("more than there are", secrets, {"limit": "9"})
