"""What would be prepared for an allocation: the record, before it is checked against others.

A pure function, so that the rules can be read and tested without a node.
"""

from dataclasses import dataclass

from cdi.enforcement import DEVICES_MAX
from dra import options
from dra.allocation import Allocation
from dra.grants import grant, is_limited, limits
from dra.node import NodeView
from dra.options import Privileges
from dra.record import GpuLimit, LimitOptions, PreparedClaim
from gpu.refusal import Refusal, RefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The administrator's part in the decision."""

    privileges: Privileges
    minimum_memory_mib: int
    """Shares below this are warned about: a CUDA context alone takes about 300 MiB."""


def plan(allocation: Allocation, view: NodeView, rules: Rules, *, boot_id: str) -> PreparedClaim:
    """Return the record for *allocation*; raise `RefusedError` when it cannot be prepared."""
    devices = tuple(grant(each, view.devices) for each in allocation.devices)
    limited = [is_limited(each, view.devices) for each in devices]
    config = options.resolve(allocation, limited, rules.privileges)
    gpu_limits = limits(devices, view.devices) if config.enforcement != "none" else ()
    limit_options = None
    if gpu_limits:
        _refuse_too_many(gpu_limits)
        limit_options = LimitOptions(
            library_sha256=view.require_library().sha256,
            priority=config.priority,
            core_policy=config.core_policy,
            log_level=config.log_level,
        )
    return PreparedClaim(
        uid=allocation.uid,
        namespace=allocation.namespace,
        name=allocation.name,
        resource_version=allocation.resource_version,
        allocation=allocation.digest,
        boot_id=boot_id,
        pod_uids=tuple(sorted(allocation.pod_uids)),
        devices=devices,
        limits=gpu_limits,
        options=limit_options,
    )


def warnings(claim: PreparedClaim, rules: Rules) -> list[Refusal]:
    """Return what is allowed in *claim* but will disappoint its user."""
    found = []
    for index, limit in enumerate(claim.limits):
        if limit.memory_mib < rules.minimum_memory_mib:
            found.append(
                Refusal(
                    code="ShareBelowMinimum",
                    field=f"limits[{index}].memory",
                    value=f"{limit.memory_mib} MiB",
                    limit=f"programs need about {rules.minimum_memory_mib} MiB to start with CUDA",
                    remedy="ask for more memory",
                )
            )
    no_core_limit = all(limit.cores_percent == 100 for limit in claim.limits)
    if claim.options is not None and claim.options.priority is not None and no_core_limit:
        found.append(
            Refusal(
                code="PriorityWithoutCores",
                field="parameters.priority",
                value=str(claim.options.priority),
                limit="HAMi-core orders only programs that have a core limit",
                remedy="ask for 1 to 99 cores",
            )
        )
    return found


def _refuse_too_many(gpu_limits: tuple[GpuLimit, ...]) -> None:
    if len(gpu_limits) > DEVICES_MAX:
        raise RefusedError(
            Refusal(
                code="TooManyLimitedGpus",
                field="devices.requests",
                value=f"{len(gpu_limits)} GPUs",
                limit=f"HAMi-core limits at most {DEVICES_MAX} GPUs in a container",
                remedy="use several claims, or whole GPUs",
            )
        )
