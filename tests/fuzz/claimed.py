"""Holds the claims of a translated pod against what the pod asked before."""

import re
from collections.abc import Mapping
from typing import Any, Final

from gpu.names import CLASS_MIG, CLASS_SHARE, CLASS_WHOLE
from tests.fuzz.asked import KEYS, MIB, MeaninglessError, Wanted, amounts, containers, wanted
from tests.fuzz.quantities import expected
from tests.fuzz.running import expect

_TOTAL: Final = re.compile(r'quantity\("([0-9]+)Mi"\)\) == 0')
_MODE: Final = "nvidia.com/vgpu-mode"
_POLICY: Final = "hami.io/gpu-scheduler-policy"


def asking(pod: Any) -> dict[tuple[str, int], Wanted]:
    """Return what each container of *pod*, which was not refused, asks for."""
    found = {}
    for section, index, container in containers(pod):
        try:
            asked = wanted(container)
        except MeaninglessError as error:
            expect(holds=False, what=f"what cannot be meant was taken: {error}")
            continue
        if asked is not None:
            found[section, index] = asked
    return found


def expect_claims(old: Any, new: Any, specs: Mapping[str, Any]) -> None:
    """Expect of *new* that its claims ask for what *old* asked; *specs* are by template name."""
    asked = asking(old)
    named = {
        each["name"]: specs[each["resourceClaimTemplateName"]]
        for each in _listed(new["spec"].get("resourceClaims"))
        if isinstance(each, dict) and each.get("resourceClaimTemplateName") in specs
    }
    annotations = _annotations(old)
    for section, index, container in containers(new):
        left = {*amounts(container, "limits"), *amounts(container, "requests")} & {*KEYS}
        expect(not left or not asked, f"a resource was left: {left}")
        resources = container.get("resources")
        claims = resources.get("claims") if isinstance(resources, dict) else None
        used = [
            named[str(each["name"])]
            for each in _listed(claims)
            if isinstance(each, dict) and str(each.get("name")) in named
        ]
        wants = asked.get((section, index))
        expect(len(used) == (wants is not None), f"claims of a container: {len(used)}")
        if wants is not None:
            _expect_spec(used[0], wants, annotations)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _annotations(pod: Any) -> Mapping[str, Any]:
    metadata = pod.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _expect_spec(spec: Any, wants: Wanted, annotations: Mapping[str, Any]) -> None:
    count = 0
    for request in spec["devices"]["requests"]:
        ways = request.get("firstAvailable") or [request["exactly"]]
        expect(len({way["count"] for way in ways}) == 1, "alternatives of several counts")
        count += ways[0]["count"]
        for way in ways:
            _expect_way(way, wants, annotations)
    expect(count == wants.count, f"another count: {count} and not {wants.count}")
    for each in spec["devices"].get("config", ()):
        expect("enforcement" not in each["opaque"]["parameters"], "a share without limits")


def _expect_way(way: Any, wants: Wanted, annotations: Mapping[str, Any]) -> None:
    capacity = way["capacity"]["requests"]
    found = {key: expected(str(value)) for key, value in capacity.items()}
    device_class, memory = way["deviceClassName"], found.get("memory")
    if device_class == CLASS_MIG:
        expect("mig" in str(annotations.get(_MODE)), "a MIG device that nobody asked for")
        least = (wants.memory_mib or 0) * MIB
        expect(memory is not None and memory >= least > 0, f"another amount: {memory} of MIG")
        return
    alone = "mutex" in [each.strip() for each in str(annotations.get(_POLICY)).split(",")]
    is_whole = wants.memory_mib is None and wants.percent == 100
    cores = wants.cores or (100 if alone and not is_whole else 0)
    expect(found["cores"] == cores, f"another amount: {found['cores']} cores and not {cores}")
    expect(device_class == (CLASS_WHOLE if is_whole else CLASS_SHARE), "another class")
    expect((memory is None) == is_whole, f"another amount: memory is {memory}")
    if not is_whole:
        mib = wants.memory_mib if wants.memory_mib is not None else _part(way, wants.percent or 0)
        expect(memory == mib * MIB, f"another amount: {memory} and not {mib} MiB")


def _part(way: Any, percent: int) -> int:
    """Return the MiB that are *percent* of the GPUs that *way* is for."""
    texts = [each["cel"]["expression"] for each in way.get("selectors", ())]
    totals = [int(found[1]) for text in texts if (found := _TOTAL.search(text))]
    expect(len(totals) == 1, "a percentage of no size")
    return max(1, totals[0] * percent // 100)
