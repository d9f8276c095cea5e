"""What a container is to get, and whether the answer about it can be delivered.

Kubelet takes gRPC messages of 4 MiB at most (grpc-go's default), and a container whose variables
are too many does not start: `argument list too long` (NVIDIA/k8s-device-plugin#1432).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gpu.refusal import Refusal, RefusedError
from hami.containers import Container, JsonObject
from hami.deviceids import physical_uuid
from hami.devices import PodDevice, RegisteredDevice
from hami.nvidia import ENV_PRIORITY
from hami.plugin.claimants import Claimant
from hami.plugin.model import Grant, Offer
from hami.requests import NVIDIA
from protos import deviceplugin_v1beta1_pb2 as api

MESSAGE_MAX: Final = 4 * 1024 * 1024
ENV_MAX: Final = 4096
MIG_MODE: Final = "mig"
"""A card on which partitions are made for each container."""
_DISABLE: Final = "CUDA_DISABLE_CONTROL"
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
"""Go's `ParseBool`, by which HAMi reads it."""
_PRIORITY_DIGITS_MAX: Final = 9

Offers = Callable[[], Offer | None]
"""Gives what the node offers now, `None` while that is not known."""


class Responder(Protocol):
    """Turns a grant into what kubelet is to do to the container."""

    def respond(self, grant: Grant) -> api.ContainerAllocateResponse:
        """Return it; raises `RefusedError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Realised:
    """Partitions that exist now."""

    devices: tuple[PodDevice, ...]
    """By the UUIDs of the partitions, in the order of the GPUs that were asked for."""
    annotations: Mapping[str, str]
    """What the pod is to say about them."""


class Instances(Protocol):
    """Makes partitions of GPUs for one container."""

    def realise(self, claimant: Claimant, place: int, devices: Sequence[PodDevice]) -> Realised:
        """Make what was decided for the container at *place*; raises `RefusedError`."""


def known(offers: Offers) -> Offer:
    """Return what the node offers; raises `RefusedError` while that is not known."""
    found = offers()
    if found is None:
        limit = "the node's GPUs or its configuration are not known yet"
        raise RefusedError(Refusal(code="OfferUnknown", field="Allocate", value="", limit=limit))
    return found


def usable(offer: Offer) -> dict[str, RegisteredDevice]:
    """Return the cards that may be handed out, by UUID and in the order of their PCI bus ids."""
    return {card.uuid: card for card in offer.cards if card.healthy}


def ordered(devices: Sequence[PodDevice], offer: Offer) -> tuple[PodDevice, ...]:
    """Return *devices* in the order of PCI bus ids; what is not offered keeps its order, last."""
    positions = {card.uuid: index for index, card in enumerate(offer.cards)}
    return tuple(sorted(devices, key=lambda each: positions.get(each.uuid, len(positions))))


def grant_of(claimant: Claimant, place: int, devices: Sequence[PodDevice]) -> Grant:
    """Return the grant of *devices* to the container at *place*."""
    container = claimant.containers[place]
    env = _env(container)
    priority = str(env.get(ENV_PRIORITY) or "")
    is_priority = priority.isascii() and priority.isdecimal()
    identity = claimant.identity
    return Grant(
        pod_uid=identity.uid,
        namespace=identity.key.namespace,
        pod=identity.key.name,
        container=container.name,
        devices=tuple(devices),
        disables_control=env.get(_DISABLE) in _TRUE,
        priority=int(priority[:_PRIORITY_DIGITS_MAX]) if is_priority else None,
    )


def partition_grant(ids: Sequence[str], offer: Offer) -> Grant:
    """Return the grant of whole partitions, for which nobody decided anything else."""
    cards = usable(offer)
    unknown = [each for each in ids if each not in cards]
    if unknown:
        raise RefusedError(
            Refusal(
                code="DeviceUnknown",
                field="Allocate",
                value=unknown[0],
                limit="the node offers no healthy device of this id",
            )
        )
    devices = tuple(
        PodDevice(
            uuid=each, type=NVIDIA, memory_mib=cards[each].memory_mib, cores=cards[each].cores
        )
        for each in ids
    )
    return Grant(pod_uid="", namespace="", pod="", container="", devices=ordered(devices, offer))


def check_answer(responses: Sequence[api.ContainerAllocateResponse]) -> api.AllocateResponse:
    """Return the answer; raises `RefusedError` if it cannot be delivered."""
    for each in responses:
        size = sum(len(f"{name}={value}".encode()) + 1 for name, value in each.envs.items())
        if size > ENV_MAX:
            raise _too_big("envs", size, ENV_MAX)
    answer = api.AllocateResponse(container_responses=responses)
    if answer.ByteSize() > MESSAGE_MAX:
        raise _too_big("AllocateResponse", answer.ByteSize(), MESSAGE_MAX)
    return answer


def deviating(
    ids: Sequence[str], decided: Sequence[PodDevice], reused: frozenset[str]
) -> tuple[str, ...]:
    """Return the ids that stand for no GPU of *decided*, except *reused* ones.

    Kubelet gives a container the ids of an earlier init container of its pod without asking, and
    then they say nothing about GPUs.
    """
    missing = [each.uuid for each in decided]
    left = []
    for device_id in sorted(ids, key=lambda each: each in reused):
        uuid = physical_uuid(device_id)
        if uuid in missing:
            missing.remove(uuid)
        else:
            left.append(device_id)
    return tuple(each for each in left if each not in reused)


def _env(container: Container) -> dict[str, Any]:
    """Return the variables that *container* sets itself; the last of a name counts."""
    env = container.raw.get("env")
    entries: list[JsonObject] = env if isinstance(env, list) else []
    return {each["name"]: each.get("value") for each in entries if "name" in each}


def _too_big(what: str, size: int, limit: int) -> RefusedError:
    return RefusedError(
        Refusal(
            code="AnswerTooBig", field=what, value=f"{size} bytes", limit=f"at most {limit} bytes"
        )
    )
