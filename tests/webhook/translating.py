"""Pods with GPU limits, clusters with GPUs as they are published, and what a scheduler gives."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dra.devices import SharingPolicy, build_devices
from gpu.model import ComputeMode, Gpu, GpuUuid, Inventory, MigDevice, PciBusId
from hami import resources
from hami.deviceconfig import DeviceConfig
from hami.requests import Invalid, Valid
from kube.objects import JsonObject
from kube.quantity import parse
from sim.apiserver.server import ApiServer
from sim.scheduler.allocator import AllocationResult, Allocator, Cluster, Outcome
from sim.scheduler.cel import fault_of
from sim.scheduler.devices import parse_slice
from sim.scheduler.features import features_of
from sim.scheduler.usage import usage_of
from webhook.claims import Translation, TranslationSettings, translate
from webhook.facts import ClusterFacts
from webhook.templatecontent import template_name

NODE = "node-a"
NODE_OBJECT = {"metadata": {"name": NODE}}
MIB = 1 << 20
PREFIX = "nvidia.com/"


def limits(**amounts: int | str) -> dict[str, str]:
    """Return limits by short names: `gpu`, `gpumem`, `percent`, `cores`, `priority`."""
    names = {"percent": "gpumem-percentage", "cores": "gpucores"}
    return {PREFIX + names.get(name, name): str(amount) for name, amount in amounts.items()}


def a_container(name: str = "main", **amounts: int | str) -> JsonObject:
    """Return a container with limits, or without any."""
    container: JsonObject = {"name": name, "image": "registry.example/app:1"}
    if amounts:
        container["resources"] = {"limits": limits(**amounts)}
    return container


def a_pod(
    *containers: JsonObject,
    inits: Sequence[JsonObject] = (),
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> JsonObject:
    """Return a pod."""
    pod: JsonObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", "namespace": "default"},
        "spec": {"containers": list(containers), **spec},
    }
    if annotations is not None:
        pod["metadata"]["annotations"] = dict(annotations)
    if inits:
        pod["spec"]["initContainers"] = list(inits)
    return pod


def a_sidecar(name: str, **amounts: int | str) -> JsonObject:
    """Return an init container that stays."""
    return {**a_container(name, **amounts), "restartPolicy": "Always"}


def outcome(
    pod: JsonObject,
    facts: ClusterFacts | None = None,
    settings: TranslationSettings | None = None,
    config: DeviceConfig | None = None,
) -> Translation | Invalid:
    """Read and translate *pod*."""
    valid = resources.read(pod, config or DeviceConfig())
    assert isinstance(valid, Valid), valid
    return translate(pod, valid, facts or ClusterFacts(), settings or TranslationSettings())


def translated(
    pod: JsonObject,
    facts: ClusterFacts | None = None,
    settings: TranslationSettings | None = None,
    config: DeviceConfig | None = None,
) -> Translation:
    """Return the translation of *pod*, which has one."""
    found = outcome(pod, facts, settings, config)
    assert isinstance(found, Translation), found
    return found


def refused(
    pod: JsonObject,
    facts: ClusterFacts | None = None,
    settings: TranslationSettings | None = None,
) -> list[str]:
    """Return the codes of why *pod* has no translation."""
    found = outcome(pod, facts, settings)
    assert isinstance(found, Invalid), found
    return [reason.code for reason in found.reasons]


def only_spec(translation: Translation) -> JsonObject:
    """Return the claim of a pod that needs one template."""
    (spec,) = translation.templates.values()
    return spec


def codes(translation: Translation) -> list[str]:
    """Return the codes of the warnings."""
    return [warning.code for warning in translation.warnings]


def a_gpu(number: int, memory_mib: int | None = 24564, **changes: Any) -> Gpu:
    """Return GPU *number*: an A10 on NUMA node 0, and on a PCIe root of its own."""
    values: dict[str, Any] = {
        "uuid": GpuUuid(uuid(number)),
        "pci_bus_id": PciBusId(f"0000:{number + 16:02x}:00.0"),
        "minor": number,
        "name": "NVIDIA A10",
        "brand": "Nvidia",
        "architecture": "Ampere",
        "memory_mib": memory_mib,
        "memory_reserved_mib": 500,
        "compute_capability": "8.6",
        "driver_version": "580.65.06",
        "cuda_driver_version": "13.0",
        "numa_node": 0,
        "pcie_root": f"pci0000:{number:02x}",
        "mig_enabled": False,
        "compute_mode": ComputeMode.DEFAULT,
    }
    return Gpu(**values | changes)


def an_exclusive_gpu(number: int, memory_mib: int | None = 24564) -> Gpu:
    """Return a GPU that only one process may open."""
    return a_gpu(number, memory_mib, compute_mode=ComputeMode.EXCLUSIVE_PROCESS)


def a_mig_gpu(number: int, *sizes_mib: int) -> Gpu:
    """Return a GPU with one partition of each size."""
    parts = tuple(
        MigDevice(
            uuid=GpuUuid(f"MIG-00000000-0000-4000-8000-{number:06x}{index:06x}"),
            parent_uuid=GpuUuid(uuid(number)),
            profile=f"1g.{size_mib // 1024}gb",
            gpu_instance_id=index,
            compute_instance_id=0,
            memory_mib=size_mib,
            multiprocessors=14,
        )
        for index, size_mib in enumerate(sizes_mib)
    )
    return a_gpu(number, 81920, mig_enabled=True, mig_devices=parts)


def uuid(number: int) -> str:
    """Return the UUID of GPU *number*."""
    return f"GPU-00000000-0000-4000-8000-{number:012x}"


def a_slice(
    *gpus: Gpu,
    node: str = NODE,
    shares: int = 10,
    fill_levels: Mapping[int, int] | None = None,
) -> JsonObject:
    """Return what *node* publishes; *fill_levels* by the number of the GPU."""
    inventory = Inventory(driver_version="580", cuda_driver_version="13.0", gpus=gpus)
    policy = SharingPolicy(shares_per_gpu=shares)
    devices = [
        dict(each) for each in build_devices(inventory, sharing_kept=True, policy=policy).devices
    ]
    by_uuid = {uuid(number): level for number, level in (fill_levels or {}).items()}
    for device in devices:
        level = by_uuid.get(device["attributes"]["uuid"]["string"])
        if level is not None:
            device["attributes"] = {**device["attributes"], "fillLevel": {"int": level}}
    return {
        "metadata": {"name": f"{node}-slice"},
        "spec": {
            "driver": "gpuslice.io",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def classes() -> dict[str, JsonObject]:
    """Return the device classes as an administrator applies them."""
    path = Path(__file__).parents[2] / "examples" / "device-classes" / "classes.yaml"
    return {each["metadata"]["name"]: each for each in yaml.safe_load_all(path.read_text())}


def a_claim(spec: JsonObject, name: str = "claim") -> JsonObject:
    """Return a claim that waits."""
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def held(spec: JsonObject, result: AllocationResult, name: str = "held") -> JsonObject:
    """Return the claim with what it was given."""
    return {**a_claim(spec, name), "status": {"allocation": result.allocations[0]}}


def allocate(
    spec: JsonObject,
    *slices: JsonObject,
    taken: Iterable[JsonObject] = (),
    profile: str = "1.36",
    node: str = NODE,
) -> AllocationResult:
    """Return what the scheduler of *profile* gives a claim on *node*."""
    cluster = Cluster(slices=slices, classes=classes(), usage=usage_of(taken))
    at = {"metadata": {"name": node}}
    result = Allocator(profile).allocate([a_claim(spec)], node=at, cluster=cluster)
    assert result.outcome in {Outcome.ALLOCATED, Outcome.NONE}, result
    return result


def given(result: AllocationResult) -> list[tuple[str, int]]:
    """Return device and MiB of each result, 0 where nothing was counted."""
    assert result.outcome is Outcome.ALLOCATED, result
    found = []
    for each in result.allocations[0]["devices"]["results"]:
        memory = (each.get("consumedCapacity") or {}).get("memory", "0")
        found.append((each["device"], parse(memory).value() // MIB))
    return found


def bodies(spec: JsonObject) -> list[JsonObject]:
    """Return every request and alternative of a claim."""
    found: list[JsonObject] = []
    for request in spec["devices"]["requests"]:
        found += request.get("firstAvailable") or [request["exactly"]]
    return found


def expressions(spec: JsonObject) -> list[str]:
    """Return every CEL expression of a claim."""
    return [
        selector["cel"]["expression"]
        for body in bodies(spec)
        for selector in body.get("selectors") or ()
    ]


def published(*gpus: Gpu, **options: Any) -> list[Any]:
    """Return the devices of a node as the scheduler reads them."""
    return list(parse_slice(a_slice(*gpus, **options), features_of("1.36")).devices)


def a_template(spec: JsonObject, name: str = "") -> JsonObject:
    """Return the template of the claims with *spec*."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name or template_name(spec), "namespace": "default"},
        "spec": {"spec": spec},
    }


def stored(spec: JsonObject, version: str = "1.36") -> JsonObject:
    """Return the spec of a claim as an API server has it in a template; refusals are raised."""
    server = ApiServer(version, check_expression=fault_of)
    made = asyncio.run(server.api.create("resourceclaimtemplates", a_template(spec)))
    found: JsonObject = made["spec"]["spec"]
    return found
