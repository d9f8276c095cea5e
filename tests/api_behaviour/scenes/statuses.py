"""Status and all else are written apart; generations count what is asked for."""

# ruff: noqa: D401 - scenes say what happens, as tests do

from kube.client import MERGE_PATCH
from tests.api_behaviour.scenes.objects import (
    allocated,
    claim,
    device,
    pod,
    resource_slice,
    result,
)
from tests.api_behaviour.scenes.writing import config
from tests.api_behaviour.server import JsonObject, Server


def pod_status(api: Server) -> None:
    """A pod's status is written by itself, and its spec not with it."""
    path = api.at("pods")
    made = api.post("status on creation is left out", path, {**pod("one"), "status": _FAILED})
    spec = {**made["spec"], "activeDeadlineSeconds": 5}
    api.put("status", f"{path}/one/status", {**made, "spec": spec, "status": _FAILED})
    api.patch("in the spec", f"{path}/one", {"status": {"phase": "Running"}})
    api.patch("label with status", f"{path}/one/status", {"metadata": {"labels": {"a": "b"}}})
    api.patch("generation", f"{path}/one", {"spec": {"activeDeadlineSeconds": 7}})
    api.patch("immutable", f"{path}/one", {"spec": {"nodeName": "elsewhere"}})
    api.get("status alone", f"{path}/one/status")
    api.delete("deleted", f"{path}/one")


_FAILED = {"phase": "Failed", "reason": "Test"}


def bound_pods(api: Server) -> None:
    """A pod is bound once, and one that is bound goes by its kubelet's leave."""
    path = api.at("pods")
    api.send("", "POST", path, pod("one"))
    target = {"kind": "Node", "name": api.own("nowhere")}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "one"}, "target": target}
    api.post("bound", f"{path}/one/binding", binding)
    api.get("as it is", f"{path}/one")
    api.post("bound again", f"{path}/one/binding", binding)
    api.delete("asked", f"{path}/one")
    api.delete("shorter", f"{path}/one", {"gracePeriodSeconds": 5})
    api.delete("at once", f"{path}/one", {"gracePeriodSeconds": 0})
    api.get("gone", f"{path}/one")


def claim_status(api: Server) -> None:
    """A claim is allocated and reserved through its status, which has rules of its own."""
    path = api.dra("resourceclaims")
    made = api.post("status on creation is left out", path, allocated(claim()))
    status = f"{path}/claim/status"
    # No controller looks after consumers of this sort.
    consumer = {"apiGroup": "example.com", "resource": "jobs", "name": "one"}
    consumer["uid"] = "00000000-0000-4000-8000-000000000000"
    api.put("reserved before allocated", status, {**made, "status": {"reservedFor": [consumer]}})
    api.put("unknown request", status, allocated(made, result(request="other")))
    api.put("bad driver", status, allocated(made, result(driver="Not_A_Driver")))
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    held = api.put("allocated", status, allocated(labelled, reservedFor=[consumer]))
    api.put("another device", status, allocated(held, result(device="gpu-1")))
    conditions = [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Test",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    told = {"driver": "gpu.example.com", "pool": "node-x", "device": "gpu-0"}
    devices = [{**told, "conditions": conditions, "data": {"a": 1}}]
    api.patch("device status", status, {"status": {"devices": devices}})
    others = [{**told, "device": "gpu-7"}]
    api.patch("status of another device", status, {"status": {"devices": others}})
    api.patch("status in the spec", f"{path}/claim", {"status": None})
    api.patch("deallocated", status, {"status": {"allocation": None, "reservedFor": None}})


def spec_of_a_claim(api: Server) -> None:
    """Specs of claims and templates stay as they were made; metadata does not."""
    for plural, body in (
        ("resourceclaims", claim()),
        ("resourceclaimtemplates", {**claim(), "spec": {"spec": claim()["spec"]}}),
    ):
        path = api.dra(plural)
        api.post(f"{plural} made", path, body)
        labels = {"metadata": {"labels": {"a": "b"}}}
        api.patch(f"{plural} labelled", f"{path}/claim", labels)
        inner: JsonObject = {"devices": {"requests": []}}
        spec = inner if plural == "resourceclaims" else {"spec": inner}
        api.patch(f"{plural} changed", f"{path}/claim", {"spec": spec})


def generations(api: Server) -> None:
    """The generation counts changes of the spec of slices and classes, not of their metadata."""
    name = api.own("one")
    path = api.dra("resourceslices")
    made = api.send("", "POST", path, resource_slice(name))
    api.tell("slice", made["metadata"]["generation"])
    two = [device(), device("gpu-1")]
    for label, patch in (
        ("label", {"metadata": {"labels": {"a": "b"}}}),
        ("devices", {"spec": {"devices": two}}),
        ("same devices", {"spec": {"devices": two}}),
        ("said by the client", {"metadata": {"generation": 77}}),
    ):
        api.patch(label, f"{path}/{name}", patch)
    for field, value in (("nodeName", "other"), ("driver", "other.example.com")):
        api.patch(f"immutable {field}", f"{path}/{name}", {"spec": {field: value}})
    api.patch("immutable pool", f"{path}/{name}", {"spec": {"pool": {"name": "other"}}})
    api.send("", "DELETE", f"{path}/{name}")
    classes = api.dra("deviceclasses")
    api.post("class", classes, {"metadata": {"name": name}, "spec": {}})
    selectors = [{"cel": {"expression": "true"}}]
    api.patch("class changed", f"{classes}/{name}", {"spec": {"selectors": selectors}})
    api.patch("class labelled", f"{classes}/{name}", {"metadata": {"labels": {"a": "b"}}})
    api.delete("class deleted", f"{classes}/{name}")


def nodes(api: Server) -> None:
    """A node keeps the status that it is made with; it is written apart afterwards."""
    name = api.own("node")
    ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "Test"}]}
    body = {"metadata": {"name": name}, "spec": {"unschedulable": True}, "status": ready}
    _tell_node(api, "made", api.send("", "POST", api.at("nodes"), body))
    headers = {"Content-Type": MERGE_PATCH}
    path = api.at("nodes", name)
    capacity = {"status": {"capacity": {"cpu": "2000m", "memory": "1024Mi"}}}
    for label, where, patch in (
        ("status", f"{path}/status", capacity),
        ("status in the spec", path, {"status": None}),
    ):
        _tell_node(api, label, api.send("", "PATCH", where, patch, headers=headers))
    api.send("", "DELETE", api.at("nodes", name))


def _tell_node(api: Server, label: str, node: JsonObject) -> None:
    """Tell what no controller of a real cluster changes meanwhile."""
    spec = {key: value for key, value in node["spec"].items() if key != "taints"}
    api.tell(label, {"name": node["metadata"]["name"], "spec": spec, "status": node["status"]})


def namespaces(api: Server) -> None:
    """A namespace has a label of its name and a phase."""
    name = api.own("more")
    api.post("made", api.at("namespaces"), {"metadata": {"name": name}})
    api.post("name of a wrong form", api.at("namespaces"), {"metadata": {"name": "a.b"}})
    api.send("", "DELETE", api.at("namespaces", name))
    api.delete("default stays", api.at("namespaces", "default"))


def secrets(api: Server) -> None:
    """Texts of a secret are stored encoded; its type is filled in."""
    body = {"metadata": {"name": "one"}, "stringData": {"a": "b"}}
    api.post("made", api.at("secrets"), body)
    api.patch("type stays", api.at("secrets", "one"), {"type": "other"})
    config_ = config(labels={"a": "b"})
    api.post("config map", api.at("configmaps"), {**config_, "immutable": True})
    api.patch("immutable data", api.at("configmaps", "one"), {"data": {"key": "new"}})
