"""The demo's second scene: a cluster of an older release, with the extender beside its scheduler.

Its nodes have agents that serve kubelet's device plugin. kube-scheduler's configuration is the
chart's, but for the address.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from cli.demo import oldernode
from cli.demo.agents import Agent
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
    got: tuple[str, ...] = ()
    """What limits its container, as the container finds it."""
    why_pending: str
    differences: tuple[str, ...]


class OlderError(Exception):
    """Pods did not come to where they should."""


def play(directory: Path, say: Callable[[str], None]) -> tuple[OlderRow, ...]:
    """Run the scene below *directory* and return what became of each pod; raises `OlderError`."""
    port = free_port()
    scheduler = configuration(f"http://127.0.0.1:{port}")
    say(f"starting a cluster of Kubernetes {VERSION} whose nodes serve the device plugin")
    nodes = oldernode.specs(directory)
    with Cluster(directory / "o", nodes, VERSION, schedulers=[scheduler]) as cluster:
        client = Client(load_config(str(cluster.kubeconfig)), user_agent="gpuslice-demo")
        extender = _start(cluster.kubeconfig, directory, port)
        agents = oldernode.start(cluster, directory)
        try:
            for each in (extender, *(agent.program for agent in agents.values())):
                each.wait_ready(_TIMEOUT_S)
            say(f"applying examples/{FOLDER}: pods in HAMi's words, placed by the extender")
            pods = _create(client, "Pod", paths.pods("default"))
            found = [_settled(client, pod["metadata"]["name"]) for pod in pods]
            memory_mib = oldernode.registered(client, _REGISTER)
            rows = [_seen(pod, row_of(pod, memory_mib), agents) for pod in found]
        finally:
            extender.stop()
            oldernode.stop(agents)
            client.close()
    return (*rows[:-1], _with(rows[-1], _overbooked(found, memory_mib))) if rows else ()


def configuration(url: str) -> JsonObject:
    """Return kube-scheduler's configuration of the chart, with the extender at *url*.

    What the chart renders is beside the code in a checkout, and inside it when installed.
    """
    here = Path(__file__).resolve().parent.parent
    inside = here / "charts" / "scheduler" / "config.yaml"
    beside = here.parent / "manifests" / "hami" / "scheduler" / "config.yaml"
    chart = yaml.safe_load((inside if inside.is_file() else beside).read_text())
    found: JsonObject = yaml.safe_load(chart["data"]["config.yaml"])
    for each in found["extenders"]:
        each["urlPrefix"] = url
    return found


def _start(kubeconfig: Path, directory: Path, port: int) -> Program:
    # The simulated scheduler leads without a Lease.
    words = ["extender", "--no-leader-elect"]
    flags = {"--kubeconfig": kubeconfig, "--port": port}
    log_path = directory / "extender.log"
    return Program.start("the extender", words, flags, log_path, probes="metrics")


def _create(client: Client, kind: str, path: str) -> list[JsonObject]:
    found = [each for each in manifests(FOLDER) if each["kind"] == kind]
    for each in found:
        client.create(path, each)
    return found


def _settled(client: Client, name: str) -> JsonObject:
    """Return a pod once it runs or has failed, or has a reason why it does not."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while True:
        pod: JsonObject = json.loads(client.get(paths.pods("default", name)))
        phase = (pod.get("status") or {}).get("phase")
        if phase in {"Running", "Failed"} or _why_pending(pod):
            return pod
        if time.monotonic() > deadline_s:
            message = f"{name} neither runs nor says why it does not"
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


def _overbooked(pods: list[JsonObject], memory_mib: Mapping[str, int]) -> Iterator[str]:
    given = [device for pod in pods for device in _devices(pod)]
    for uuid, total_mib in memory_mib.items():
        used_mib = sum(each.memory_mib for each in given if each.uuid == uuid)
        if used_mib > total_mib:
            yield f"{uuid} has {total_mib} MiB, of which {used_mib} are given"


def _seen(pod: JsonObject, row: OlderRow, agents: Mapping[str, Agent]) -> OlderRow:
    """Add what the pod's container got, and what the monitor of its node shows of it."""
    devices = _devices(pod)
    if not devices:
        return row
    view = oldernode.container_of(agents, pod)
    found = list(oldernode.differences(view, devices))
    agent = agents[row.node]
    found += oldernode.measured(agent, row.pod, devices, _TIMEOUT_S)
    return replace(_with(row, found), got=oldernode.got(view) if view else ())


def _with(row: OlderRow, more: Iterable[str]) -> OlderRow:
    return replace(row, differences=(*row.differences, *more))


def _why_pending(pod: JsonObject) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""
