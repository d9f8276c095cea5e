"""A scheduler of a cluster, by what matters here of its KubeSchedulerConfiguration."""

from dataclasses import dataclass
from typing import Final

from kube.objects import JsonObject
from sim.scheduler.extender_policy import ExtenderPolicy, PolicyError, read_policies

DEFAULT_NAME: Final = "default-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Whose pods it schedules, and who helps it."""

    name: str = DEFAULT_NAME
    """What pods have as `schedulerName`."""
    extenders: tuple[ExtenderPolicy, ...] = ()


def read_configuration(said: JsonObject) -> Configuration:
    """Read a KubeSchedulerConfiguration of one profile; raises `PolicyError`."""
    profiles = said.get("profiles") or [{}]
    if len(profiles) != 1:
        message = f"{len(profiles)} profiles; a simulated scheduler has one"
        raise PolicyError(message)
    return Configuration(
        name=profiles[0].get("schedulerName") or DEFAULT_NAME,
        extenders=read_policies(said.get("extenders") or ()),
    )
