"""Whatever the pod: nothing unknown is lost, nothing fails, and a second call finds nothing."""

import copy
from typing import Any

import jsonpatch
from hypothesis import given, settings
from hypothesis import strategies as st

from hami import resources
from hami.deviceconfig import DeviceConfig
from hami.requests import Absent, Valid
from kube.objects import JsonObject
from kube.quantity import parse
from tests.webhook.strategies import FACTS, PREFERENCES, SETTINGS
from tests.webhook.translating import MIB, bodies, codes, limits
from webhook.claims import Translation, TranslationSettings, translate
from webhook.facts import ClusterFacts
from webhook.requestannotation import ANNOTATION, LABEL
from webhook.templatecontent import expected_templates, is_genuine

KEYS = TranslationSettings().keys
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
UNKNOWN = st.dictionaries(st.sampled_from(["x", "future/~field", "é"]), JSON, max_size=2)
NAMES = st.from_regex(r"[a-z][a-z0-9]{0,61}", fullmatch=True) | st.sampled_from(["main", "a" * 63])


@st.composite
def amounts(draw: st.DrawFn) -> dict[str, str]:
    """Draw limits of a container that are in HAMi's range, and other resources."""
    others = st.sampled_from(["cpu", "example.com/gpu"])
    found = dict.fromkeys(draw(st.sets(others)), "1")
    if draw(st.booleans()):
        said: dict[str, int | str] = {"gpu": draw(st.integers(1, 4))}
        kind = draw(st.sampled_from(["", "gpumem", "percent"]))
        if kind:
            said[kind] = draw(st.integers(1, 100))
        if draw(st.booleans()):
            said["cores"] = draw(st.integers(0, 100))
        if draw(st.booleans()):
            said["priority"] = draw(st.integers(0, 1))
        found |= limits(**said)
    return found


@st.composite
def containers(draw: st.DrawFn, name: str) -> JsonObject:
    """Draw a container."""
    container: JsonObject = {**draw(UNKNOWN), "name": name}
    said = draw(amounts())
    is_empty = not said and draw(st.booleans())
    if not is_empty:
        container["resources"] = {**draw(UNKNOWN), "limits": said}
        if draw(st.booleans()):
            container["resources"]["requests"] = dict(said)
        if draw(st.booleans()):
            container["resources"]["claims"] = draw(st.sampled_from([None, [], [{"name": "own"}]]))
    return container


@st.composite
def pods(draw: st.DrawFn) -> JsonObject:
    """Draw a pod with some containers of every kind."""
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    made = [draw(containers(name)) for name in names]
    split = draw(st.integers(0, len(made) - 1))
    inits = made[:split]
    for each in inits:
        if draw(st.booleans()):
            each["restartPolicy"] = "Always"
    metadata: JsonObject = {**draw(UNKNOWN), "name": "pod"}
    for field in ("annotations", "labels"):
        if draw(st.booleans()):
            metadata[field] = draw(st.sampled_from([None, {}, {"a/b": "c"}]))
    spec: JsonObject = {**draw(UNKNOWN), "containers": made[split:]}
    if inits:
        spec["initContainers"] = inits
    if draw(st.booleans()):
        spec["resourceClaims"] = draw(
            st.sampled_from([None, [], [{"name": "own"}, {"name": f"gpu-{names[-1]}"[:63]}]])
        )
    return {"metadata": metadata, "spec": spec}


@settings(max_examples=150)
@given(pod=pods(), preferences=PREFERENCES, facts=FACTS, chosen=SETTINGS)
def test_a_translation_changes_only_what_it_must(
    pod: JsonObject, preferences: Any, facts: ClusterFacts, chosen: TranslationSettings
) -> None:
    """Our resources go, claims come, and all else is there after it as before."""
    valid = resources.read(pod, DeviceConfig())
    if not isinstance(valid, Valid):
        return
    valid = Valid(requests=valid.requests, preferences=preferences)
    before = copy.deepcopy(pod)
    found = translate(pod, valid, facts, chosen)
    assert pod == before
    if not isinstance(found, Translation):
        assert found.reasons
        return
    after = jsonpatch.apply_patch(pod, list(found.patch))
    assert _without_ours(after) == _without_ours(before)
    again = resources.read(after, DeviceConfig())
    assert isinstance(again, Absent)
    assert again.requests == ()
    assert expected_templates(after) == found.templates
    assert all(is_genuine(name, spec) for name, spec in found.templates.items())
    assert translate(pod, valid, facts, chosen) == found
    names = [entry["name"] for entry in after["spec"]["resourceClaims"]]
    assert len(set(names)) == len(names)


def _without_ours(pod: JsonObject) -> JsonObject:
    """Return *pod* without our resources and claims, and without what is empty then."""
    pod = copy.deepcopy(pod)
    metadata, spec = pod["metadata"], pod["spec"]
    (metadata.get("annotations") or {}).pop(ANNOTATION, None)
    (metadata.get("labels") or {}).pop(LABEL, None)
    _drop_empty(metadata, "annotations", "labels")
    _drop_ours(spec, "resourceClaims", "resourceClaimTemplateName")
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        amounts_of = container.get("resources") or {}
        for kind in ("limits", "requests"):
            for key in KEYS & (amounts_of.get(kind) or {}).keys():
                del amounts_of[kind][key]
        own = [each for each in amounts_of.get("claims") or () if each == {"name": "own"}]
        amounts_of["claims"] = own
        _drop_empty(amounts_of, "claims", "limits", "requests")
        _drop_empty(container, "resources")
    return pod


def _drop_ours(holder: JsonObject, key: str, mark: str) -> None:
    holder[key] = [each for each in holder.get(key) or () if mark not in each]
    _drop_empty(holder, key)


def _drop_empty(holder: JsonObject, *keys: str) -> None:
    for key in keys:
        if not holder.get(key):
            holder.pop(key, None)


@settings(max_examples=150)
@given(pod=pods())
def test_every_container_has_one_claim_for_what_it_asked(pod: JsonObject) -> None:
    """Memory, cores and count of its claim are its own; no claim has two that run together."""
    valid = resources.read(pod, DeviceConfig())
    facts = ClusterFacts(gpus_by_memory_mib={24564: 1})
    if not isinstance(valid, Valid):
        return
    found = translate(pod, valid, facts, TranslationSettings())
    assert isinstance(found, Translation)
    after = jsonpatch.apply_patch(pod, list(found.patch))
    specs = {
        entry["name"]: found.templates[entry["resourceClaimTemplateName"]]
        for entry in after["spec"]["resourceClaims"]
        if "resourceClaimTemplateName" in entry
    }
    staying: list[str] = []
    for each in valid.requests:
        container = after["spec"][each.container.section][each.container.index]
        named = [it["name"] for it in (container.get("resources") or {}).get("claims") or ()]
        ours = [name for name in named if name in specs]
        assert len(ours) == (each.nvidia is not None)
        if each.nvidia is None:
            continue
        if each.container.kind != "init":
            staying += ours
        (body,) = bodies(specs[ours[0]])
        capacity = body["capacity"]["requests"]
        percent = each.nvidia.memory_percent
        expected = each.nvidia.memory_mib or max(1, 24564 * (percent or 0) // 100)
        booked = parse(capacity["memory"]).value() // MIB if "memory" in capacity else 24564
        assert booked == expected
        assert parse(capacity["cores"]).value() == each.nvidia.cores
        assert body["count"] == each.nvidia.count
    assert len(set(staying)) == len(staying)
    assert specs
    assert "TypeMatchesMore" not in codes(found)
