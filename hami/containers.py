"""The one way to the containers of a pod.

HAMi counts init containers before app containers in everything it writes, and kinds differ in how
long they hold a device: ordinary init containers run one after the other and end, sidecars (init
containers with `restartPolicy: Always`) and app containers stay. Ephemeral containers are left
out: Kubernetes gives them no resources.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

JsonObject = dict[str, Any]


class ContainerKind(StrEnum):
    """How long a container lives beside the others."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container and where it stands in its pod."""

    kind: ContainerKind
    section: str
    """`initContainers` or `containers`."""
    index: int
    name: str
    raw: JsonObject

    @property
    def pointer(self) -> str:
        """Its JSON pointer, such as `/spec/containers/0`."""
        return f"/spec/{self.section}/{self.index}"

    @property
    def path(self) -> str:
        """The same for people, such as `spec.containers[0]`."""
        return f"spec.{self.section}[{self.index}]"


def all_containers(pod: JsonObject) -> tuple[Container, ...]:
    """Return the init containers and then the app containers of *pod*, in their order.

    What is no object is left out: such a pod is refused by the API server.
    """
    found = []
    for section in ("initContainers", "containers"):
        for index, raw in enumerate(_objects(pod, section)):
            if isinstance(raw, dict):
                name = raw.get("name")
                found.append(
                    Container(
                        kind=_kind(section, raw),
                        section=section,
                        index=index,
                        name=name if isinstance(name, str) else "",
                        raw=raw,
                    )
                )
    return tuple(found)


def _objects(pod: JsonObject, section: str) -> list[Any]:
    spec = pod.get("spec")
    found = spec.get(section) if isinstance(spec, dict) else None
    return found if isinstance(found, list) else []


def _kind(section: str, raw: JsonObject) -> ContainerKind:
    if section == "containers":
        return ContainerKind.APP
    return ContainerKind.SIDECAR if raw.get("restartPolicy") == "Always" else ContainerKind.INIT
