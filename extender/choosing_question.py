"""What a pod asks of NVIDIA GPUs, as conditions that hold for one GPU at a time.

A container fits on a node only if enough of its GPUs, each by itself and before anything is given
away, meet what it asks. That is less than fitting, and quickly asked of all nodes at once.
"""

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
    staying: tuple[Need, ...]
    """Those of containers that are there together: all but ordinary init containers."""
    numa_bind: bool
    """Whether GPUs of different NUMA nodes may not go together."""
    modes: str
    types: tuple[str, str]
    """The texts of what selects and of what excludes."""
    uuids: tuple[frozenset[str] | None, frozenset[str]]
    """Those that may be taken, `None` for all, and those that may not."""

    @property
    def least_mib(self) -> int:
        """Return the MiB that the pod takes of its quota at least, as far as known."""
        return sum(need.count * (need.memory_mib or 0) for need in self.staying)

    @property
    def least_cores(self) -> int:
        """Return the same of cores."""
        return sum(need.count * need.cores for need in self.staying)

    @property
    def has_uuids(self) -> bool:
        """Tell whether it takes some GPUs only, or all but some."""
        return self.uuids != (None, frozenset())

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
    use = matching.members(text(userkeys.USE_UUID, ""))
    return Question(
        needs=tuple(map(_need, devices)),
        staying=tuple(
            _need(device)
            for request in ask.valid.requests
            if request.container.kind is not ContainerKind.INIT
            for device in request.devices
        ),
        mutex=policy.mutex,
        numa_bind=preferences.numa_bind,
        modes=text(userkeys.VGPU_MODE, ""),
        types=(text(userkeys.USE_TYPE, ""), text(userkeys.NOUSE_TYPE, "")),
        uuids=(
            None if use is None else frozenset(use),
            frozenset(matching.members(text(userkeys.NOUSE_UUID, "")) or ()),
        ),
    )


def _need(request: DeviceRequest) -> Need:
    return Need(
        count=request.count,
        memory_mib=request.memory_mib,
        memory_percent=request.memory_percent or 0,
        cores=min(request.cores, _ALL_CORES),
    )
