"""The demo's second scene: a cluster of an older release, with the extender beside its scheduler.

The nodes are objects alone, with what HAMi's device plugins register; no container is started
there. kube-scheduler's configuration is the chart's, but for the address.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from cli.demo.programs import Program, free_port
from cli.demo.scenes import manifests
from hami import keys
from hami.devices import PodDevice
from hami.poddevices import decode_pod_devices
from hami.reading import Undecodable
from kube import paths
from kube.client import Client
from kube.config import load_config
from kube.objects import JsonObject
from kube.quantity import parse
from sim.cluster import Cluster

FOLDER: Final = "older-cluster"
VERSION: Final = "1.34"
_TOO_LARGE: Final = frozenset({"older-large"})
_ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
_REGISTER: Final = "hami.io/node-nvidia-register"
_GPU: Final = "nvidia.com/gpu"
_MEMORY: Final = "nvidia.com/gpumem"
_PERCENT: Final = "nvidia.com/gpumem-percentage"
_CORES: Final = "nvidia.com/gpucores"
_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderRow:
    """A pod of the older cluster and what it was given."""

    pod: str
    limits: dict[str, str]
    node: str
    devices: tuple[str, ...]
    why_pending: str
    differences: tuple[str, ...]


class OlderError(Exception):
    """Pods did not come to where they should."""


def play(directory: Path, say: Callable[[str], None]) -> tuple[OlderRow, ...]:
    """Run the scene below *directory* and return what became of each pod; raises `OlderError`."""
    port = free_port()
    scheduler = configuration(f"http://127.0.0.1:{port}")
    say(f"starting a cluster of Kubernetes {VERSION} with nodes as HAMi's plugins leave them")
    with Cluster(directory / "o", [], VERSION, schedulers=[scheduler]) as cluster:
        client = Client(load_config(str(cluster.kubeconfig)), user_agent="gpuslice-demo")
        extender = _start(cluster.kubeconfig, directory, port)
        try:
            nodes = _create(client, "Node", paths.nodes())
            extender.wait_ready(_TIMEOUT_S)
            say(f"applying examples/{FOLDER}: pods in HAMi's words, placed by the extender")
            pods = _create(client, "Pod", paths.pods("default"))
            found = [_settled(client, pod["metadata"]["name"]) for pod in pods]
        finally:
            extender.stop()
            client.close()
    memory_mib = _registered(nodes)
    rows = tuple(row_of(pod, memory_mib) for pod in found)
    return (*rows[:-1], _with(rows[-1], _overbooked(found, memory_mib))) if rows else ()


def configuration(url: str) -> JsonObject:
    """Return kube-scheduler's configuration of the chart, with the extender at *url*.

    The chart is beside the code in a checkout, and inside it when installed.
    """
    here = Path(__file__).resolve().parent.parent
    inside = here / "charts" / "extender" / "scheduler.yaml"
    beside = here.parent / "charts" / "gpuslice" / "extender" / "scheduler.yaml"
    chart = yaml.safe_load((inside if inside.is_file() else beside).read_text())
    found: JsonObject = yaml.safe_load(chart["data"]["config.yaml"])
    for each in found["extenders"]:
        each["urlPrefix"] = url
    return found


def _start(kubeconfig: Path, directory: Path, port: int) -> Program:
    # The simulated scheduler leads without a Lease, and no device plugin is there to take a lock.
    words = ["extender", "--no-leader-elect", "--no-node-lock"]
    flags = {"--kubeconfig": kubeconfig, "--port": port}
    log_path = directory / "extender.log"
    return Program.start("the extender", words, flags, log_path, probes="metrics")


def _create(client: Client, kind: str, path: str) -> list[JsonObject]:
    found = [each for each in manifests(FOLDER) if each["kind"] == kind]
    for each in found:
        client.create(path, each)
    return found


def _settled(client: Client, name: str) -> JsonObject:
    """Return a pod once it has a node, or a reason why it has none."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while True:
        pod: JsonObject = json.loads(client.get(paths.pods("default", name)))
        if pod["spec"].get("nodeName") or _why_pending(pod):
            return pod
        if time.monotonic() > deadline_s:
            message = f"{name} has neither a node nor a reason"
            raise OlderError(message)
        time.sleep(0.05)


def row_of(pod: JsonObject, memory_mib: Mapping[str, int]) -> OlderRow:
    """Return what became of *pod*; *memory_mib* is that of each GPU there is."""
    (container,) = pod["spec"]["containers"]
    return OlderRow(
        pod=pod["metadata"]["name"],
        limits=container["resources"]["limits"],
        node=pod["spec"].get("nodeName") or "",
        devices=tuple(
            f"{each.uuid}: {each.memory_mib} MiB, {each.cores} %" for each in _devices(pod)
        ),
        why_pending=_why_pending(pod),
        differences=tuple(_differences(pod, memory_mib)),
    )


def _differences(pod: JsonObject, memory_mib: Mapping[str, int]) -> Iterator[str]:
    """Yield what is not as the manifest asks."""
    (container,) = pod["spec"]["containers"]
    limits: Mapping[str, str] = container["resources"]["limits"]
    node, devices = pod["spec"].get("nodeName"), _devices(pod)
    if pod["metadata"]["name"] in _TOO_LARGE:
        if node or devices:
            yield "was given a device although it cannot fit"
        if "CardInsufficientMemory" not in _why_pending(pod):
            yield f"is pending for another reason: {_why_pending(pod)}"
        return
    if not node:
        yield f"is pending: {_why_pending(pod)}"
        return
    if (pod["metadata"].get("labels") or {}).get(keys.NODE) != node:
        yield f"has no label {keys.NODE}"
    if len({each.uuid for each in devices}) != _amount(limits[_GPU]):
        yield f"has {len(devices)} devices and not {limits[_GPU]}"
    for each in devices:
        yield from _of_device(each, limits, memory_mib[each.uuid])


def _of_device(given: PodDevice, limits: Mapping[str, str], total_mib: int) -> Iterator[str]:
    wanted_mib = _amount(limits.get(_MEMORY, "0"))
    if _PERCENT in limits:
        wanted_mib = total_mib * _amount(limits[_PERCENT]) // 100
    if given.memory_mib != wanted_mib:
        yield f"has {given.memory_mib} MiB and not {wanted_mib}"
    if given.cores != _amount(limits[_CORES]):
        yield f"has {given.cores} % and not {limits[_CORES]}"


def _amount(said: str) -> int:
    """Read a quantity, which the API server may have spelled anew."""
    return parse(said).value()


def _devices(pod: JsonObject) -> tuple[PodDevice, ...]:
    text = (pod["metadata"].get("annotations") or {}).get(_ALLOCATED, "")
    slots = decode_pod_devices(text, len(pod["spec"]["containers"]))
    if isinstance(slots, Undecodable):
        raise OlderError(slots.reason)
    return tuple(device for slot in slots for device in slot)


def _registered(nodes: list[JsonObject]) -> dict[str, int]:
    registers = (json.loads(node["metadata"]["annotations"][_REGISTER]) for node in nodes)
    return {device["id"]: device["devmem"] for devices in registers for device in devices}


def _overbooked(pods: list[JsonObject], memory_mib: Mapping[str, int]) -> Iterator[str]:
    given = [device for pod in pods for device in _devices(pod)]
    for uuid, total_mib in memory_mib.items():
        used_mib = sum(each.memory_mib for each in given if each.uuid == uuid)
        if used_mib > total_mib:
            yield f"{uuid} has {total_mib} MiB, of which {used_mib} are given"


def _with(row: OlderRow, more: Iterator[str]) -> OlderRow:
    return OlderRow(
        pod=row.pod,
        limits=row.limits,
        node=row.node,
        devices=row.devices,
        why_pending=row.why_pending,
        differences=(*row.differences, *more),
    )


def _why_pending(pod: JsonObject) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""
