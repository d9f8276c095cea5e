"""Which containers of a pod have which claim, and what the pod calls it.

One claim with limits serves one container at a time. Ordinary init containers end before the next
one starts, and all of them before the apps, so they may have the claim of an app that asks the
same; a sidecar runs beside both. Kubernetes gives a claim back only when the pod ends, so an init
container that asks for something else holds it as long.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpu.refusal import Refusal
from hami.containers import Container, ContainerKind
from hami.requests import ContainerRequest, DeviceRequest
from hami.wording import shown

_PREFIX: Final = "gpu-"
_NAME_MAX: Final = 63
_HASH: Final = 8
_NOT_IN_LABEL: Final = re.compile(r"[^a-z0-9-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """One claim of the pod."""

    device: DeviceRequest
    owner: Container
    """Whom it is named after: its only container that stays, if one does."""
    containers: tuple[Container, ...]


def grouped(requests: Sequence[ContainerRequest]) -> tuple[PodClaim, ...]:
    """Return the claims for all NVIDIA requests, in the order of the containers they belong to."""
    inits: dict[DeviceRequest, list[Container]] = {}
    staying: list[tuple[DeviceRequest, Container]] = []
    for each in requests:
        if each.nvidia is None:
            continue
        if each.container.kind is ContainerKind.INIT:
            inits.setdefault(each.nvidia, []).append(each.container)
        else:
            staying.append((each.nvidia, each.container))
    found = []
    for device, container in staying:
        shared = inits.pop(device, []) if container.kind is ContainerKind.APP else []
        claim = PodClaim(device=device, owner=container, containers=(*shared, container))
        found.append(claim)
    for device, containers in inits.items():
        found.append(PodClaim(device=device, owner=containers[0], containers=tuple(containers)))
    return tuple(found)


def held_too_long(claims: Iterable[PodClaim]) -> tuple[Refusal, ...]:
    """Return a warning for each claim that only init containers use."""
    return tuple(
        Refusal(
            code="InitClaimAddsUp",
            field=claim.owner.path,
            value=shown(claim.owner.name),
            limit="its claim is held for the pod's whole life and adds to those of the others",
            remedy="ask for the same as an app container, and they share one claim",
        )
        for claim in claims
        if claim.owner.kind is ContainerKind.INIT
    )


def entry_name(container: str, taken: Iterable[str]) -> str:
    """Return the name of the pod's claim for *container*: a DNS label that is not in *taken*."""
    others = frozenset(taken)
    label = _NOT_IN_LABEL.sub("-", container.lower()).strip("-")
    plain = f"{_PREFIX}{label}"
    if label and label == container and len(plain) <= _NAME_MAX and plain not in others:
        return plain
    attempt = 0
    while True:
        salted = f"{container}/{attempt}".encode(errors="replace")
        tail = hashlib.sha256(salted).hexdigest()[:_HASH]
        head = plain[: _NAME_MAX - _HASH - 1].rstrip("-")
        name = f"{head}-{tail}"
        if name not in others:
            return name
        attempt += 1
