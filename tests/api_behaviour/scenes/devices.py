"""What a server fills in, drops and refuses in the objects of device allocation."""

# ruff: noqa: D401 - scenes say what happens, as tests do

from typing import Any

from tests.api_behaviour.scenes.objects import claim, device, request, resource_slice
from tests.api_behaviour.server import JsonObject, Server

_TAINT = {"key": "example.com/ill", "effect": "NoSchedule"}


def defaults_of_claims(api: Server) -> None:
    """Modes, counts and operators are filled in; quantities come back in their shortest form."""
    path = api.dra("resourceclaims")
    api.post("bare", path, claim())
    api.post("all", path, claim("all", request(allocationMode="All")))
    tolerations = [{"key": "a"}, {"operator": "Exists"}]
    capacity = {"requests": {"memory": "2048Mi", "cores": "1000m"}}
    full = request(count=2, tolerations=tolerations, capacity=capacity, selectors=[])
    api.post("full", path, claim("full", full))
    alternatives = [
        {"name": "a", "deviceClassName": "a.example.com"},
        {"name": "b", "deviceClassName": "b.example.com", "count": 2, "capacity": capacity},
    ]
    api.post("first", path, claim("first", {"name": "gpu", "firstAvailable": alternatives}))
    api.post("nothing", path, {"metadata": {"name": "nothing"}, "spec": {}})
    api.post("no spec", path, {"metadata": {"name": "no-spec"}})
    template = {"metadata": {"name": "one"}, "spec": {"spec": claim()["spec"]}}
    labelled = {**template["spec"], "metadata": {"labels": {"a": "b"}}}
    api.post("template", api.dra("resourceclaimtemplates"), {**template, "spec": labelled})
    constraints = [{"requests": ["gpu"], "distinctAttribute": "example.com/uuid"}]
    api.post("distinct", path, claim("distinct", constraints=constraints))


def fields_of_slices(api: Server) -> None:
    """Each release keeps the fields of the features that it has on."""
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    shared = device(
        allowMultipleAllocations=True,
        capacity={"memory": {"value": "16384Mi", "requestPolicy": policy}},
    )
    binding: JsonObject = {
        "bindsToNode": True,
        "bindingConditions": ["a"],
        "bindingFailureConditions": ["b"],
    }
    counters = [{"counterSet": "set", "counters": {"memory": {"value": "1Gi"}}}]
    sets = [{"name": "set", "counters": {"memory": {"value": "40Gi"}}}]
    listed: JsonObject = {
        "attributes": {"models": {"strings": ["a", "b"]}, "model": {"string": "T4"}}
    }
    for label, spec in (
        ("shared", {"devices": [shared]}),
        ("tainted", {"devices": [device(taints=[_TAINT])]}),
        ("binding", {"devices": [device(**binding)]}),
        ("partition", {"devices": [device(consumesCounters=counters)]}),
        ("counters", {"sharedCounters": sets, "devices": None}),
        ("lists", {"devices": [device(**listed)]}),
        ("empty", {"devices": []}),
    ):
        _try(api, label, "resourceslices", resource_slice(api.own("one"), **spec))
    everywhere: JsonObject = {"nodeName": None, "perDeviceNodeSelection": True}
    each = {"devices": [device(nodeName="node-x"), device("gpu-1", allNodes=True)]}
    _try(api, "nodes", "resourceslices", resource_slice(api.own("one"), **{**everywhere, **each}))


def fields_of_classes(api: Server) -> None:
    """A class may name an extended resource, and configuration for drivers."""
    opaque = {"driver": "gpu.example.com", "parameters": {"a": {"b": [1]}}}
    for label, spec in (
        ("extended", {"extendedResourceName": "example.com/gpu"}),
        ("configured", {"config": [{"opaque": opaque}]}),
        ("wrong expression", {"selectors": [{"cel": {"expression": "device."}}]}),
        ("no boolean", {"selectors": [{"cel": {"expression": "1"}}]}),
        ("unknown field", {"selectors": [{"cel": {"expression": "device.nonsense == 1"}}]}),
        ("wrong resource name", {"extendedResourceName": "gpu"}),
        ("wrong driver", {"config": [{"opaque": {**opaque, "driver": "No_Driver"}}]}),
        ("empty selector", {"selectors": [{}]}),
        ("too many", {"selectors": [{"cel": {"expression": "true"}}] * 33}),
    ):
        _try(api, label, "deviceclasses", {"metadata": {"name": api.own("one")}, "spec": spec})


def _try(api: Server, label: str, plural: str, body: JsonObject) -> None:
    """Create an object, tell the answer, and take it away again."""
    made = api.post(label, api.dra(plural), body)
    if made["kind"] != "Status":
        api.send("", "DELETE", api.dra(plural, body["metadata"]["name"]))


def _wrong_devices() -> dict[str, Any]:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}

    def memory(value: str, **more: Any) -> JsonObject:
        capacity = {"memory": {"value": value, "requestPolicy": {**policy, **more}}}
        return device(allowMultipleAllocations=True, capacity=capacity)

    many = {f"attribute-{number}": {"bool": True} for number in range(33)}
    return {
        "name": [device("Wrong_Name")],
        "twice": [device(), device()],
        "no name": [{"attributes": {}}],
        "two values": [device(attributes={"a": {"string": "b", "int": 1}})],
        "no value": [device(attributes={"a": {}})],
        "attribute name": [device(attributes={"a b": {"int": 1}})],
        "attribute domain": [device(attributes={"A_B/c": {"int": 1}})],
        "long text": [device(attributes={"a": {"string": "x" * 65}})],
        "version": [device(attributes={"a": {"version": "1"}})],
        "too many attributes": [device(attributes=many)],
        "too many devices": [device(f"gpu-{number}") for number in range(129)],
        "effect": [device(taints=[{"key": "a", "effect": "Sometimes"}])],
        "taint key": [device(taints=[{**_TAINT, "key": "a b"}])],
        "off the grid": [memory("15843721216", default="15843721216")],
        "below the least": [memory("16Gi", default="1Mi")],
        "above all": [memory("1Gi", default="2Gi")],
        "two policies": [memory("16Gi", validValues=["1Gi"])],
        "policy of one": [{**memory("16Gi"), "allowMultipleAllocations": None}],
        "values in disorder": [memory("16Gi", validRange=None, validValues=["2Gi", "1Gi"])],
        "no default": [memory("16Gi", default=None)],
        "quantity": [device(capacity={"memory": {"value": "1 Gi"}})],
    }


def wrong_slices(api: Server) -> None:
    """Every rule of a slice names the field that breaks it."""
    plural, name = "resourceslices", api.own("one")
    for label, devices in _wrong_devices().items():
        _try(api, label, plural, resource_slice(name, devices=devices))
    pool = {"name": "node-x", "generation": 1, "resourceSliceCount": 1}
    counters = {"name": "set", "counters": {"memory": {"value": "1Gi"}}}
    for label, spec in (
        ("driver", {"driver": "No_Driver"}),
        ("no driver", {"driver": None}),
        ("pool name", {"pool": {**pool, "name": "No Pool"}}),
        ("pool size", {"pool": {**pool, "resourceSliceCount": 0}}),
        ("generation", {"pool": {**pool, "generation": -1}}),
        ("no pool", {"pool": None}),
        ("no node", {"nodeName": None}),
        ("two scopes", {"allNodes": True}),
        ("all nodes false", {"allNodes": False}),
        ("empty node", {"nodeName": ""}),
        ("empty selector", {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": []}}),
        ("devices and counters", {"sharedCounters": [counters]}),
        ("sets twice", {"devices": None, "sharedCounters": [counters, counters]}),
        ("unknown field", {"nonsense": True}),
    ):
        _try(api, label, plural, resource_slice(name, **spec))
    _try(api, "no spec", plural, {"metadata": {"name": name}})


def _wrong_requests() -> dict[str, Any]:
    alternative = {"name": "a", "deviceClassName": "gpu.example.com"}
    both = {**request(), "firstAvailable": [alternative]}
    many = [{**alternative, "name": f"a-{number}"} for number in range(9)]
    bad = [{"cel": {"expression": "device.attributes['"}}]
    return {
        "name": [request("Wrong_Name")],
        "twice": [request(), request()],
        "both forms": [both],
        "neither form": [{"name": "gpu"}],
        "too many alternatives": [{"name": "gpu", "firstAvailable": many}],
        "alternative twice": [{"name": "gpu", "firstAvailable": [alternative, alternative]}],
        "class": [request(deviceClassName="Wrong_Name")],
        "no class": [request(deviceClassName=None)],
        "mode": [request(allocationMode="Some")],
        "count of all": [request(allocationMode="All", count=1)],
        "negative count": [request(count=-1)],
        "zero count": [request(count=0)],
        "expression": [request(selectors=bad)],
        "long expression": [request(selectors=[{"cel": {"expression": "true||" * 2000 + "true"}}])],
        "no selector": [request(selectors=[{}])],
        "toleration": [request(tolerations=[{"operator": "Sometimes"}])],
        "toleration of nothing": [request(tolerations=[{"operator": "Equal"}])],
        "value of existence": [
            request(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}])
        ],
        "admin": [request(adminAccess=True)],
        "too many": [request(f"gpu-{number}") for number in range(33)],
        "quantity": [request(capacity={"requests": {"memory": "much"}})],
    }


def wrong_claims(api: Server) -> None:
    """Every rule of a claim names the field that breaks it."""
    plural = "resourceclaims"
    for label, requests in _wrong_requests().items():
        _try(api, label, plural, claim("one", *requests))
    opaque = {"driver": "gpu.example.com", "parameters": {"a": 1}}
    for label, devices in (
        ("constraint of nobody", {"constraints": [{"requests": ["x"], "matchAttribute": "a.b/c"}]}),
        ("constraint of nothing", {"constraints": [{"requests": ["gpu"]}]}),
        ("attribute", {"constraints": [{"matchAttribute": "unqualified"}]}),
        ("configuration of nobody", {"config": [{"requests": ["x"], "opaque": opaque}]}),
        ("empty configuration", {"config": [{}]}),
        ("driver", {"config": [{"opaque": {**opaque, "driver": ""}}]}),
        ("no parameters", {"config": [{"opaque": {"driver": "gpu.example.com"}}]}),
        ("text for parameters", {"config": [{"opaque": {**opaque, "parameters": "x"}}]}),
    ):
        _try(api, label, plural, claim("one", **devices))


def wrong_templates(api: Server) -> None:
    """A template is judged as the claims that will be made of it."""
    plural = "resourceclaimtemplates"
    for label, spec in (
        ("request", {"spec": claim("one", request("Wrong_Name"))["spec"]}),
        ("label", {"metadata": {"labels": {"a": "-"}}, "spec": claim()["spec"]}),
        ("name", {"metadata": {"name": "own"}, "spec": claim()["spec"]}),
        ("nothing", {}),
    ):
        _try(api, label, plural, {"metadata": {"name": "one"}, "spec": spec})


def wrong_pods(api: Server) -> None:
    """What a pod says of claims has to fit together."""
    container = {"name": "main", "image": "image:1"}
    gpu = {"name": "gpu", "resourceClaimName": "claim"}
    uses = {**container, "resources": {"claims": [{"name": "gpu"}]}}
    twice = {**container, "resources": {"claims": [{"name": "gpu"}, {"name": "gpu"}]}}
    for label, spec in (
        ("right", {"containers": [uses], "resourceClaims": [gpu]}),
        ("unknown claim", {"containers": [uses]}),
        ("used twice", {"containers": [twice], "resourceClaims": [gpu]}),
        ("claim twice", {"containers": [container], "resourceClaims": [gpu, gpu]}),
        ("no source", {"containers": [container], "resourceClaims": [{"name": "gpu"}]}),
        ("two sources", {"containers": [container], "resourceClaims": [
            {**gpu, "resourceClaimTemplateName": "template"}]}),
        ("source of a wrong form", {"containers": [container], "resourceClaims": [
            {"name": "gpu", "resourceClaimName": "Wrong_Name"}]}),
        ("no containers", {"containers": []}),
        ("no image", {"containers": [{"name": "main"}]}),
        ("containers of one name", {"containers": [container, container]}),
        ("request without limit", {"containers": [
            {**container, "resources": {"requests": {"example.com/gpu": "1"}}}]}),
    ):  # fmt: skip
        told = {"automountServiceAccountToken": False, "schedulerName": "nobody", **spec}
        made = api.post(label, api.at("pods"), {"metadata": {"name": "one"}, "spec": told})
        if made["kind"] != "Status":
            api.send("", "DELETE", api.at("pods", "one"), {"gracePeriodSeconds": 0})
