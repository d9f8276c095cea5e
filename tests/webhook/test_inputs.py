"""The input files in both modes: what becomes of each pod, from its text to what is stored."""

from copy import deepcopy
from typing import Any

import kubernetes_validate
import pytest

from hami.containers import all_containers
from kube.objects import JsonObject
from sim.scheduler.cel import matches
from tests.hami.inputfiles import InputCase, input_cases
from tests.webhook.admitting import SCHEDULER, Decided, KnownCluster, decide
from tests.webhook.translating import a_gpu, bodies, expressions, published
from webhook.facts import ClusterFacts

MODES = {"claims": True, "hami": False}
NODE_C = ClusterFacts(gpus_by_memory_mib={23028: 1, 81920: 1}, gpus_by_shares={10: 2})
"""An A10 and an A100."""

REFUSED = {
    "in-12": "container helper is privileged",
    "in-15": "hami.io/vgpu-node",
    "in-18: a node fixed by name; that is judged elsewhere": "use nodeSelector",
    "in-04: many GPUs are for the translation to judge": "a claim holds 1..32",
}
"""Pods whose request is valid and that may not be all the same."""
ONLY_WITH_CLAIMS = {"in-04: many GPUs are for the translation to judge"}

CASES = {f"{each.file}: {each.title}": each for each in input_cases()}


def _why_refused(name: str, *, claims: bool) -> str:
    if name in ONLY_WITH_CLAIMS and not claims:
        return ""
    return REFUSED.get(name, "") or REFUSED.get(name.partition(":")[0], "")


def one(file: str, part: str = "") -> InputCase:
    """Return the case of *file* whose title contains *part*."""
    return next(
        each for name, each in CASES.items() if name.startswith(f"{file}: ") and part in name
    )


def decided(case: InputCase, *, claims: bool = True, pod: JsonObject | None = None) -> Decided:
    """Return what becomes of the pod of *case*, or of another in its place."""
    facts = KnownCluster(gpus=NODE_C) if case.file == "in-13" else None
    return decide(pod or case.pod, case.config, claims_serve=claims, view=facts)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_input(name: str, mode: str) -> None:
    """A pod is refused with the text of its case, or stored as its case says."""
    case = CASES[name]
    found = decided(case, claims=MODES[mode])
    for text in case.expected.get("reasons", {}).values():
        assert text in found.refused
    why = _why_refused(name, claims=MODES[mode])
    assert why in found.refused
    if why or case.expected["outcome"] == "invalid":
        assert found.refused
        return
    assert not found.refused
    for code, text in case.expected.get("warnings", {}).items():
        assert any(each.startswith(f"{code}: ") and text in each for each in found.warned)
    (_check_claims if MODES[mode] else _check_hami)(case, found)
    stored = {"apiVersion": "v1", "kind": "Pod", **found.pod}
    stored["metadata"] = {"name": "pod", **found.pod["metadata"]}
    kubernetes_validate.validate(stored, "1.37", strict=True)


def _check_claims(case: InputCase, found: Decided) -> None:
    asking = case.expected.get("containers", {})
    assert len(found.claims) == len(asking)
    for (container, wanted), spec in zip(asking.items(), found.claims, strict=True):
        users = [
            each.name
            for each in all_containers(found.pod)
            if (each.raw.get("resources") or {}).get("claims")
        ]
        assert users == [container]
        _check_amounts(wanted, spec, case)
    for each in all_containers(found.pod) if asking else ():
        resources = each.raw.get("resources") or {}
        left = {*resources.get("limits", {}), *resources.get("requests", {})}
        assert not left & case.config.nvidia.keys


def _check_amounts(wanted: dict[str, Any], spec: JsonObject, case: InputCase) -> None:
    sizes = NODE_C.gpus_by_memory_mib if case.file == "in-13" else {24564: 2}
    percent = wanted.get("memory_percent")
    allowed = {wanted.get("memory_mib")}
    if percent is not None:
        allowed = {None} if percent == 100 else {size * percent // 100 for size in sizes}
    assert {_mib(each) for each in bodies(spec)} == allowed
    requests = spec["devices"]["requests"]
    counts = [
        max(each["count"] for each in bodies({"devices": {"requests": [r]}})) for r in requests
    ]
    assert sum(counts) == wanted["count"]
    assert {each["capacity"]["requests"]["cores"] for each in bodies(spec)} == {
        str(wanted["cores"])
    }


def _mib(body: JsonObject) -> int | None:
    memory = body["capacity"]["requests"].get("memory")
    if memory is None:
        return None
    return int(memory.removesuffix("Gi")) * 1024 if memory[-2:] == "Gi" else int(memory[:-2])


def _check_hami(case: InputCase, found: Decided) -> None:
    asks = bool(case.expected.get("containers"))
    assert (found.pod["spec"].get("schedulerName") == SCHEDULER) == asks
    edits = case.expected.get("edits", {})
    for before, after in zip(all_containers(case.pod), all_containers(found.pod), strict=True):
        wanted = deepcopy(before.raw)
        for section in ("limits", "requests"):
            new = edits.get(before.name, {}).get(section, {})
            if new:
                wanted.setdefault("resources", {}).setdefault(section, {}).update(new)
        env = edits.get(before.name, {}).get("env", [])
        if env:
            added = [{"name": name, "value": value} for name, value in env]
            wanted["env"] = [*wanted.get("env", []), *added]
        assert after.raw == wanted


def test_cpu_stays() -> None:
    """Resources that are not ours keep their texts, in limits and requests (IN-01)."""
    (container,) = decided(one("in-01", "canonical")).pod["spec"]["containers"]
    resources = container["resources"]
    assert (resources["limits"], resources["requests"]) == ({"cpu": "1"}, {"cpu": "1"})


def test_priority_is_passed_on() -> None:
    """All five resources leave the pod, and the priority is in the claim (IN-06)."""
    case = one("in-06", "given twice")
    (spec,) = decided(case).claims
    (config,) = spec["devices"]["config"]
    assert config["opaque"]["parameters"]["priority"] == 0
    variables = decided(case, claims=False).pod["spec"]["containers"][0]["env"]
    assert {"name": "CUDA_TASK_PRIORITY", "value": "0"} in variables


def test_init_container_without_its_privileged_neighbour() -> None:
    """A GPU of an init container is a GPU of the pod (IN-12)."""
    case = one("in-12")
    pod = deepcopy(case.pod)
    del pod["spec"]["containers"][0]["securityContext"]
    found = decided(case, pod=pod)
    assert found.pod["spec"]["initContainers"][0]["resources"]["claims"]
    assert decided(case, pod=pod, claims=False).pod["spec"]["schedulerName"] == SCHEDULER


def test_ephemeral_containers_are_left() -> None:
    """An ephemeral container is never looked at (IN-12)."""
    pod = deepcopy(one("in-09").pod)
    debugger = {"name": "debug", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod["spec"]["ephemeralContainers"] = [debugger]
    for claims in MODES.values():
        found = decided(one("in-09"), pod=pod, claims=claims)
        assert found.pod["spec"]["ephemeralContainers"] == [debugger]


def test_long_names_become_names_of_claims() -> None:
    """Claims get unique, valid names however long those of their containers are (IN-13)."""
    case = one("in-13")
    pod = deepcopy(case.pod)
    (first,) = pod["spec"]["containers"]
    pod["spec"]["containers"].append({**deepcopy(first), "name": first["name"] + "-too"})
    names = [each["name"] for each in decided(case, pod=pod).pod["spec"]["resourceClaims"]]
    assert len(set(names)) == 2
    assert all(len(name) <= 63 for name in names)


def test_percentage_of_two_sizes() -> None:
    """Half of a GPU is half of whichever it becomes (IN-13)."""
    (spec,) = decided(one("in-13")).claims
    assert {_mib(each) for each in bodies(spec)} == {11514, 40960}


def test_label_of_a_pod_does_not_skip() -> None:
    """Without the forged annotations the pod is translated, whatever its label says (IN-15)."""
    case = one("in-15")
    pod = deepcopy(case.pod)
    del pod["metadata"]["annotations"]
    assert decided(case, pod=pod).claims


def test_chosen_devices_are_the_listed_ones() -> None:
    """Of four H100 the two listed ones match, each selector by itself (IN-16)."""
    (spec,) = decided(one("in-16", "odd text")).claims
    uuids = [f"GPU-bbbbbbbb-0000-4000-8000-{number:012x}" for number in (1, 2, 3, 4)]
    gpus = [
        a_gpu(index, 81559, uuid=uuid, name="NVIDIA H100 80GB HBM3")
        for index, uuid in enumerate(uuids)
    ]
    devices = published(*gpus)
    found = [
        uuid
        for uuid, device in zip(uuids, devices, strict=True)
        if all(matches(each, device) for each in expressions(spec))
    ]
    assert found == uuids[:2]
    assert len(expressions(spec)) == 2


def test_mirrors_are_left() -> None:
    """The mirror of a static pod names its node and cannot have claims (IN-18)."""
    case = one("in-18", "by name")
    pod = deepcopy(case.pod)
    pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "hash"}
    for claims in MODES.values():
        assert decided(case, pod=pod, claims=claims).pod == pod
