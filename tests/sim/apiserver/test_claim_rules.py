"""Claims, templates and classes: what their specs may be."""

from typing import Any

import pytest

from sim.apiserver.json_values import JsonObject
from tests.sim.apiserver.builders import (
    DRIVER,
    Served,
    claim,
    fields,
    refused,
    served,
)

REQUEST = "spec.devices.requests[0]"


def _devices(**devices: Any) -> JsonObject:
    wanted = claim()
    wanted["spec"]["devices"] |= devices
    return wanted


def _exactly(**more: Any) -> JsonObject:
    exactly = {"deviceClassName": "gpu", **more}
    return _devices(requests=[{"name": "gpu", "exactly": exactly}])


def _first(count: int, **more: Any) -> JsonObject:
    names = [{"name": f"a{n}", "deviceClassName": "gpu", **more} for n in range(count)]
    return _devices(requests=[{"name": "gpu", "firstAvailable": names}])


def _config(parameters: JsonObject, **more: Any) -> JsonObject:
    return _devices(config=[{"opaque": {"driver": DRIVER, "parameters": parameters}, **more}])


GOOD = {
    "an exact request": _exactly(),
    "a capacity": claim(capacity={"memory": "3000Mi", f"{DRIVER}/cores": "30"}),
    "eight alternatives": _first(8),
    "all devices": _exactly(allocationMode="All"),
    "no request": _devices(requests=[]),
    "a constraint on an alternative": {
        **_first(2),
        "spec": {
            "devices": {
                **_first(2)["spec"]["devices"],
                "constraints": [
                    {"requests": ["gpu/a1"], "matchAttribute": "resource.kubernetes.io/numaNode"}
                ],
            }
        },
    },
    "parameters of any shape": _config({"kind": "ShareConfig", "deep": {"er": [1, None]}}),
}

BAD: dict[str, tuple[JsonObject, str]] = {
    "neither form": (_devices(requests=[{"name": "gpu"}]), REQUEST),
    "both forms": (
        _devices(
            requests=[
                {
                    "name": "gpu",
                    "exactly": {"deviceClassName": "gpu"},
                    "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}],
                }
            ]
        ),
        REQUEST,
    ),
    "nine alternatives": (_first(9), f"{REQUEST}.firstAvailable"),
    "a name twice": (
        _devices(requests=2 * _exactly()["spec"]["devices"]["requests"]),
        "spec.devices.requests[1]",
    ),
    "33 requests": (
        _devices(
            requests=[{"name": f"r{n}", "exactly": {"deviceClassName": "c"}} for n in range(33)]
        ),
        "spec.devices.requests",
    ),
    "a count for all": (_exactly(allocationMode="All", count=1), f"{REQUEST}.exactly.count"),
    "a count below zero": (_exactly(count=-1), f"{REQUEST}.exactly.count"),
    "an unknown mode": (_exactly(allocationMode="Some"), f"{REQUEST}.exactly.allocationMode"),
    "no class": (_exactly(deviceClassName=""), f"{REQUEST}.exactly.deviceClassName"),
    "a capacity with a dash": (
        claim(capacity={"gpu-memory": "1Gi"}),
        f"{REQUEST}.exactly.capacity.requests[gpu-memory]",
    ),
    "a constraint on a stranger": (
        _devices(constraints=[{"requests": ["other"], "matchAttribute": "a.b/c"}]),
        "spec.devices.constraints[0].requests[0]",
    ),
    "a constraint without attribute": (
        _devices(constraints=[{"requests": ["gpu"]}]),
        "spec.devices.constraints[0]",
    ),
    "an attribute without domain": (
        _devices(constraints=[{"matchAttribute": "numaNode"}]),
        "spec.devices.constraints[0].matchAttribute",
    ),
    "a config for a stranger": (
        _config({}, requests=["other"]),
        "spec.devices.config[0].requests[0]",
    ),
    "parameters of 11 KiB": (
        _config({"text": "x" * 11 * 1024}),
        "spec.devices.config[0].opaque.parameters",
    ),
    "a config without driver": (
        _devices(config=[{"opaque": {"driver": "", "parameters": {}}}]),
        "spec.devices.config[0].opaque.driver",
    ),
}


@pytest.mark.parametrize("what", GOOD)
def test_claims_that_are_accepted(what: str) -> None:
    """What the API allows is stored."""

    async def scene(at: Served) -> None:
        made = await at.api.create("resourceclaims", GOOD[what], "default")
        for request in made["spec"]["devices"]["requests"]:
            for exact in (request.get("exactly"), *request.get("firstAvailable", ())):
                if exact is not None and exact["allocationMode"] == "ExactCount":
                    assert exact["count"] == 1

    served(scene)


@pytest.mark.parametrize("what", BAD)
def test_claims_and_templates_that_are_refused(what: str) -> None:
    """A broken rule is named with its field, in a template one `spec` deeper."""

    async def scene(at: Served) -> None:
        wanted, field = BAD[what]
        error = await refused(at.api.create("resourceclaims", wanted, "default"))
        assert (error.code, fields(error)) == (422, [field])
        template = {"metadata": {"name": "t"}, "spec": {"spec": wanted["spec"]}}
        error = await refused(at.api.create("resourceclaimtemplates", template, "default"))
        assert fields(error) == [f"spec.{field}"]

    served(scene)


def test_admin_access_needs_a_labelled_namespace() -> None:
    """`adminAccess` is refused outside of namespaces that the administrator labelled."""

    async def scene(at: Served) -> None:
        wanted = _exactly(adminAccess=True)
        error = await refused(at.api.create("resourceclaims", wanted, "default"))
        assert fields(error) == [f"{REQUEST}.adminAccess"]
        labels = {"resource.kubernetes.io/admin-access": "true"}
        await at.api.patch("namespaces", "default", {"metadata": {"labels": labels}})
        assert await at.api.create("resourceclaims", wanted, "default")

    served(scene)


def test_specs_of_claims_and_templates_are_fixed() -> None:
    """Labels may change, the spec may not."""

    async def scene(at: Served) -> None:
        made = await at.api.create("resourceclaims", claim(), "default")
        made["metadata"]["labels"] = {"a": "b"}
        made = await at.api.update("resourceclaims", made)
        made["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
        error = await refused(at.api.update("resourceclaims", made))
        assert (error.code, fields(error)) == (422, ["spec"])
        template: JsonObject = {"metadata": {"name": "t"}, "spec": {"spec": claim()["spec"]}}
        made = await at.api.create("resourceclaimtemplates", template, "default")
        made["spec"]["metadata"] = {"labels": {"a": "b"}}
        assert fields(await refused(at.api.update("resourceclaimtemplates", made))) == ["spec"]

    served(scene)


def test_selectors_are_compiled_by_the_cluster() -> None:
    """What the given function has against an expression is a 422 at that expression."""

    def check(expression: str) -> str | None:
        return None if expression == "true" else "undeclared reference"

    async def scene(at: Served) -> None:
        def device_class(expression: str) -> JsonObject:
            selectors = [{"cel": {"expression": "true"}}, {"cel": {"expression": expression}}]
            return {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}

        error = await refused(at.api.create("deviceclasses", device_class("devic.driver")))
        assert fields(error) == ["spec.selectors[1].cel.expression"]
        assert "undeclared reference" in error.message
        assert (await at.api.create("deviceclasses", device_class("true")))["metadata"]["uid"]
        wrong = _exactly(selectors=[{"cel": {"expression": "x"}}])
        error = await refused(at.api.create("resourceclaims", wrong, "default"))
        assert fields(error) == [f"{REQUEST}.exactly.selectors[0].cel.expression"]

    served(scene, check_expression=check)


@pytest.mark.parametrize("name", ["gpu", "nvidia.com/", "nvidia.com/g p u"])
def test_extended_resource_names(name: str) -> None:
    """The extended resource of a class needs a domain and a name."""

    async def scene(at: Served) -> None:
        spec = {"extendedResourceName": name}
        error = await refused(
            at.api.create("deviceclasses", {"metadata": {"name": "gpu"}, "spec": spec})
        )
        assert fields(error) == ["spec.extendedResourceName"]

    served(scene)
