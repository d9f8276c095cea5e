"""Which examples the demo applies, and what each of their pods asks for.

What a pod shall get is read from the manifest itself, so that the demo fails when the system
gives something else than the manifest says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
_HAMI = "nvidia.com/"
_REQUEST = "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One folder of `examples/`."""

    folder: str
    title: str
    fits: bool = True
    legacy: bool = False
    """It asks in HAMi's words, which the webhook turns into claims."""


SCENES = (
    Scene(folder="one-share", title="3000 MiB and 30 % of a GPU"),
    Scene(folder="ten-shares", title="ten shares of one GPU"),
    Scene(folder="whole-gpu", title="a whole GPU"),
    Scene(folder="two-gpus", title="shares of two GPUs in one container"),
    Scene(folder="mig-device", title="a MIG device"),
    # The webhook would refuse this one, so it comes before it.
    Scene(folder="does-not-fit", title="a request that cannot fit", fits=False),
    Scene(folder="legacy-share", title="the first again, by HAMi's limits", legacy=True),
    Scene(folder="legacy-percentage", title="a percentage, by HAMi's limits", legacy=True),
    Scene(folder="legacy-pair", title="two pods of one kind, by HAMi's limits", legacy=True),
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
    memory_percent: int | None = None
    """Of the GPU that it becomes, in place of *memory_mib*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWish:
    """A pod of an example, and whether it is meant to run."""

    name: str
    fits: bool
    wishes: tuple[Wish, ...]
    limits: Mapping[str, str] = field(default_factory=dict)
    """What it asks for in HAMi's words."""


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
        if scene.legacy:
            yield _legacy_wish(pod, fits=scene.fits)
            continue
        used = [each["resourceClaimTemplateName"] for each in pod["spec"]["resourceClaims"]]
        requests = [each for name in used for each in templates[name]["devices"]["requests"]]
        yield PodWish(
            name=pod["metadata"]["name"],
            fits=scene.fits,
            wishes=tuple(_wish(request) for request in requests),
        )


def _legacy_wish(pod: JsonObject, *, fits: bool) -> PodWish:
    """Read what the only container of *pod* asks for, as HAMi would."""
    (container,) = pod["spec"]["containers"]
    limits: dict[str, str] = container["resources"]["limits"]
    memory, percent = limits.get(f"{_HAMI}gpumem"), limits.get(f"{_HAMI}gpumem-percentage")
    wish = Wish(
        request=_REQUEST,
        device_class=names.CLASS_SHARE,
        count=int(limits[f"{_HAMI}gpu"]),
        memory_mib=int(memory) if memory else None,
        memory_percent=int(percent) if percent else None,
        cores_percent=int(limits.get(f"{_HAMI}gpucores", "0")),
    )
    return PodWish(name=pod["metadata"]["name"], fits=fits, wishes=(wish,), limits=limits)


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
