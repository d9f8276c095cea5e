"""What a pod asks of NVIDIA GPUs, as conditions that hold for one GPU at a time.

A container fits on a node only if enough of its GPUs, each by itself and before anything is given
away, meet what it asks. That is less than fitting, and quickly asked of all nodes at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from extender.accounting import MIG_MODE
from extender.fitting import order
from extender.model import Ask, Policies
from hami import matching, userkeys
from hami.containers import ContainerKind
from hami.requests import NVIDIA, DeviceRequest

_ALL_CORES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one container asks of each of *count* GPUs."""

    count: int
    memory_mib: int | None
    memory_percent: int
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A pod that asks for NVIDIA GPUs alone."""

    needs: tuple[Need, ...]
    """One for each container that asks, in their order."""
    mutex: bool
    numa: bool
    """Whether GPUs of different NUMA nodes may not go together."""
    modes: str
    types: tuple[str, str]
    """The texts of what selects and of what excludes."""
    uuids: tuple[str, str]
    least_mib: int
    """What the pod takes of its quota at least."""
    least_cores: int

    @property
    def is_single(self) -> bool:
        """Tell whether one container alone asks."""
        return len(self.needs) == 1

    @property
    def takes_instances(self) -> bool:
        """Tell whether one GPU may serve a container several times, by several instances."""
        return not self.modes.strip() or MIG_MODE in self.modes

    def takes_kind(self, model: str, mode: str) -> bool:
        """Tell whether it takes GPUs of a model and mode."""
        use, nouse = self.types
        return matching.type_matches(model, use=use, nouse=nouse) and matching.mode_matches(
            mode, self.modes
        )

    def takes_uuid(self, uuid: str) -> bool:
        """Tell whether it takes a GPU."""
        use, nouse = self.uuids
        return matching.uuid_matches(uuid, use=use, nouse=nouse)


def question_of(ask: Ask, policies: Policies) -> Question | None:
    """Return what *ask* asks, or `None` where devices of other vendors are among it."""
    devices = [each for request in ask.valid.requests for each in request.devices]
    if any(each.word != NVIDIA for each in devices):
        return None
    preferences = ask.valid.preferences
    policy = order.resolved(
        order.policy_text(ask.annotations, policies.gpu_policy), numa_bind=preferences.numa_bind
    )
    text = ask.annotations.get
    least_mib, least_cores = _least(ask)
    return Question(
        needs=tuple(map(_need, devices)),
        mutex=policy.mutex,
        numa=preferences.numa_bind or preferences.numa_alignment is not None,
        modes=text(userkeys.VGPU_MODE, ""),
        types=(text(userkeys.USE_TYPE, ""), text(userkeys.NOUSE_TYPE, "")),
        uuids=(text(userkeys.USE_UUID, ""), text(userkeys.NOUSE_UUID, "")),
        least_mib=least_mib,
        least_cores=least_cores,
    )


def _need(request: DeviceRequest) -> Need:
    return Need(
        count=request.count,
        memory_mib=request.memory_mib,
        memory_percent=request.memory_percent or 0,
        cores=min(request.cores, _ALL_CORES),
    )


def _least(ask: Ask) -> tuple[int, int]:
    """Return the MiB and cores that the containers which stay take together, as far as known."""
    staying = [
        _need(device)
        for request in ask.valid.requests
        if request.container.kind is not ContainerKind.INIT
        for device in request.devices
    ]
    return _sum(staying)


def _sum(needs: Sequence[Need]) -> tuple[int, int]:
    memory_mib = sum(need.count * (need.memory_mib or 0) for need in needs)
    return memory_mib, sum(need.count * need.cores for need in needs)
