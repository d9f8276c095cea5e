"""DeviceTaintRules: where they are served, and what the server makes of them."""

from typing import Any

import pytest

from sim.apiserver.json_values import JsonObject
from tests.sim.apiserver.builders import DRA, DRIVER, Served, fields, refused, served

RULES = f"{DRA}/devicetaintrules"
PLURAL = "devicetaintrules"
LONG_AGO = "2020-01-01T00:00:00Z"


def rule(**spec: Any) -> JsonObject:
    """Return a rule for one device."""
    taint = {"key": "example.com/broken", "value": "yes", "effect": "NoSchedule"}
    selector = {"driver": DRIVER, "pool": "node-a", "device": "gpu-0"}
    return {
        "metadata": {"name": "rule"},
        "spec": {"deviceSelector": selector, "taint": taint} | spec,
    }


def condition(kind: str = "EvictionInProgress", **changes: Any) -> JsonObject:
    """Return a condition of a rule."""
    told = {"status": "True", "reason": "Evicting", "message": "", "lastTransitionTime": LONG_AGO}
    return {"type": kind, **told, **changes}


def test_only_the_newest_release_serves_rules() -> None:
    """1.37 tells of them and serves them; 1.36 does neither, and keeps what it has stored."""

    async def scene(at: Served) -> None:
        status, made = await at.wire.post(RULES, rule())
        assert (status, made["status"], made["metadata"]["generation"]) == (201, {}, 1)
        assert await _told(at) == {PLURAL, f"{PLURAL}/status"}
        at.server.set_version("1.36")
        assert await _told(at) == set()
        assert (await at.wire.get(RULES))[0] == 404
        assert (await at.wire.post(RULES, rule()))[0] == 404
        assert (await refused(at.api.create(PLURAL, rule()))).code == 404
        at.server.set_version("1.37")
        assert (await at.wire.get(f"{RULES}/rule"))[1] == made
        status, gone = await at.wire.delete(f"{RULES}/rule")
        assert (status, gone["kind"], gone["status"]) == (200, "Status", "Success")

    served(scene)


async def _told(at: Served) -> set[str]:
    _, listed = await at.wire.get(DRA)
    _, schema = await at.wire.get(f"/openapi/v3{DRA}")
    names = {row["name"] for row in listed["resources"] if row["name"].startswith(PLURAL)}
    assert bool(names) == any(PLURAL in path for path in schema["paths"])
    return names


@pytest.mark.parametrize(
    ("spec", "blamed"),
    [
        ({"taint": {}}, ["spec.taint.key", "spec.taint.effect"]),
        ({"taint": {"key": "a b", "effect": "NoSchedule"}}, ["spec.taint.key"]),
        ({"taint": {"key": "a", "value": "b c", "effect": "None"}}, ["spec.taint.value"]),
        ({"taint": {"key": "a", "effect": "PreferNoSchedule"}}, ["spec.taint.effect"]),
        ({"deviceSelector": {"driver": "a b"}}, ["spec.deviceSelector.driver"]),
        ({"deviceSelector": {"driver": ""}}, ["spec.deviceSelector.driver"]),
        ({"deviceSelector": {"pool": "a//b"}}, ["spec.deviceSelector.pool"]),
        ({"deviceSelector": {"device": "GPU"}}, ["spec.deviceSelector.device"]),
    ],
)
def test_broken_rules_are_refused(spec: JsonObject, blamed: list[str]) -> None:
    """Taint and selector are judged as those of slices are."""

    async def scene(at: Served) -> None:
        assert fields(await refused(at.api.create(PLURAL, rule(**spec)))) == blamed

    served(scene)


def test_a_selector_may_be_empty_or_missing() -> None:
    """Both are kept as they are, since they mean all devices and none."""

    async def scene(at: Served) -> None:
        made = await at.api.create(PLURAL, rule(deviceSelector={}))
        assert made["spec"]["deviceSelector"] == {}
        made["spec"].pop("deviceSelector")
        assert "deviceSelector" not in (await at.api.update(PLURAL, made))["spec"]

    served(scene)


def test_the_time_of_a_taint_is_that_of_its_effect() -> None:
    """It is filled in, kept while the effect stays, and set anew with another effect."""

    async def scene(at: Served) -> None:
        made = await at.api.create(PLURAL, rule())
        made["spec"]["taint"]["timeAdded"] = LONG_AGO
        made = await at.api.update(PLURAL, made)
        made["spec"]["taint"]["value"] = "no"
        made = await at.api.update(PLURAL, made)
        assert made["spec"]["taint"]["timeAdded"] == LONG_AGO
        made["spec"]["taint"]["effect"] = "NoExecute"
        made = await at.api.update(PLURAL, made)
        assert made["spec"]["taint"]["timeAdded"] > LONG_AGO
        assert made["metadata"]["generation"] == 4

    served(scene)


def test_an_update_names_the_version_it_replaces() -> None:
    """Without one it is refused, by PATCH it is not needed."""

    async def scene(at: Served) -> None:
        await at.api.create(PLURAL, rule())
        assert fields(await refused(at.api.update(PLURAL, rule()))) == ["metadata.resourceVersion"]
        patch = {"spec": {"taint": {"value": "no"}}}
        made = await at.api.patch(PLURAL, "rule", patch)
        assert made["spec"]["taint"]["value"] == "no"

    served(scene)


def test_the_status_is_written_apart() -> None:
    """Creation drops it; its subresource takes conditions and nothing else."""

    async def scene(at: Served) -> None:
        made = await at.api.create(PLURAL, {**rule(), "status": {"conditions": [condition()]}})
        assert "status" not in made
        changed = {**made, "spec": {"taint": {"key": "other", "effect": "None"}}}
        changed["metadata"] = {**made["metadata"], "labels": {"a": "b"}}
        changed["status"] = {"conditions": [condition()]}
        kept = await at.api.update(PLURAL, changed, subresource="status")
        assert kept["spec"] == made["spec"]
        assert "labels" not in kept["metadata"]
        assert kept["metadata"]["generation"] == 1
        assert kept["status"]["conditions"] == [condition()]

    served(scene)


@pytest.mark.parametrize(
    ("conditions", "blamed"),
    [
        ([condition(f"Type{index}") for index in range(9)], "status.conditions"),
        ([condition(), condition()], "status.conditions[1]"),
        ([condition(status="Maybe")], "status.conditions[0].status"),
        ([condition(reason="")], "status.conditions[0].reason"),
    ],
)
def test_broken_conditions_are_refused(conditions: list[JsonObject], blamed: str) -> None:
    """At most eight different ones are taken, each with a state and a reason."""

    async def scene(at: Served) -> None:
        made = await at.api.create(PLURAL, rule())
        made["status"] = {"conditions": conditions}
        assert fields(await refused(at.api.update(PLURAL, made, subresource="status"))) == [blamed]

    served(scene)


def test_kubectl_sees_the_taint() -> None:
    """The table of rules shows their taints, with nothing for a value that is not there."""

    async def scene(at: Served) -> None:
        await at.api.create(PLURAL, rule(taint={"key": "broken", "effect": "NoExecute"}))
        accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        async with at.wire.session.get(RULES, headers=accept) as response:
            answer = await response.json()
        titles = [column["name"] for column in answer["columnDefinitions"]]
        assert titles == ["Name", "Key", "Value", "Effect", "TimeAdded", "Age"]
        assert answer["rows"][0]["cells"][:4] == ["rule", "broken", "", "NoExecute"]

    served(scene)
