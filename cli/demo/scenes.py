"""Which examples the demo applies, and what each of their pods asks for.

What a pod shall get is read from the manifest itself, so that the demo fails when the system
gives something else than the manifest says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from gpu import names
from kube.objects import JsonObject
from kube.quantity import parse

NODES: Mapping[str, str] = {
    "node-a": """\
# Simulated GPUs of this node; edit the file to break one.
gpus:
- profile: l4
- profile: a10
- profile: a100-80gb
  mig: [3g.40gb, 1g.10gb]
""",
    "node-b": """\
gpus:
- profile: t4
- profile: h100-80gb
  count: 2
""",
}

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One folder of `examples/`."""

    folder: str
    title: str
    fits: bool = True


SCENES = (
    Scene(folder="one-share", title="3000 MiB and 30 % of a GPU"),
    Scene(folder="ten-shares", title="ten shares of one GPU"),
    Scene(folder="whole-gpu", title="a whole GPU"),
    Scene(folder="two-gpus", title="shares of two GPUs in one container"),
    Scene(folder="mig-device", title="a MIG device"),
    Scene(folder="does-not-fit", title="a request that cannot fit", fits=False),
)
CLASSES = "device-classes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One request of a pod's claim."""

    request: str
    device_class: str
    count: int
    memory_mib: int | None
    """`None`: all of it."""
    cores_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWish:
    """A pod of an example, and whether it is meant to run."""

    name: str
    fits: bool
    wishes: tuple[Wish, ...]


def examples_directory() -> Path:
    """Return where the examples are: beside the code in a checkout, inside it when installed."""
    here = Path(__file__).resolve().parent.parent
    installed = here / "examples"
    return installed if installed.is_dir() else here.parent / "examples"


def manifests(folder: str) -> list[JsonObject]:
    """Return the objects in the YAML files of an example."""
    files = sorted((examples_directory() / folder).glob("*.yaml"))
    return [each for file in files for each in yaml.safe_load_all(file.read_text()) if each]


def pod_wishes(scene: Scene) -> Iterator[PodWish]:
    """Yield what each pod of *scene* asks for."""
    objects = manifests(scene.folder)
    templates = {
        each["metadata"]["name"]: each["spec"]["spec"]
        for each in objects
        if each["kind"] == "ResourceClaimTemplate"
    }
    for pod in objects:
        if pod["kind"] != "Pod":
            continue
        used = [each["resourceClaimTemplateName"] for each in pod["spec"]["resourceClaims"]]
        requests = [each for name in used for each in templates[name]["devices"]["requests"]]
        yield PodWish(
            name=pod["metadata"]["name"],
            fits=scene.fits,
            wishes=tuple(_wish(request) for request in requests),
        )


def _wish(request: JsonObject) -> Wish:
    exactly = request["exactly"]
    asked = exactly.get("capacity", {}).get("requests", {})
    memory = asked.get(names.CAPACITY_MEMORY)
    return Wish(
        request=request["name"],
        device_class=exactly["deviceClassName"],
        count=exactly.get("count", 1),
        memory_mib=parse(str(memory)).value() // MIB if memory is not None else None,
        cores_percent=parse(str(asked.get(names.CAPACITY_CORES, 0))).value(),
    )
