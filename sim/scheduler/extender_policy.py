"""How a scheduler calls an extender: one entry of `extenders` in a KubeSchedulerConfiguration.

What is refused here is what kube-scheduler does not start with (kubernetes:
pkg/scheduler/apis/config/validation/validation.go).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kube.objects import JsonObject
from sim.scheduler.errors import SchedulerError

_TIMEOUT_S: Final = 5.0
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_KNOWN: Final = frozenset(
    {
        "urlPrefix",
        "filterVerb",
        "prioritizeVerb",
        "weight",
        "bindVerb",
        "enableHTTPS",
        "tlsConfig",
        "httpTimeout",
        "nodeCacheCapable",
        "managedResources",
        "ignorable",
    }
)


class PolicyError(SchedulerError):
    """A configuration with which kube-scheduler does not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderPolicy:
    """One extender; an empty verb is a question that it is not asked."""

    url_prefix: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    http_timeout_s: float = _TIMEOUT_S
    node_cache_capable: bool = False
    """Nodes are named to it, instead of sent."""
    managed_resources: frozenset[str] = field(default_factory=frozenset)
    """Only pods that ask for one of them are its concern; empty: all pods are."""
    ignored_resources: frozenset[str] = field(default_factory=frozenset)
    """Those of them that the scheduler itself does not count."""
    ignorable: bool = False
    """Pods are scheduled without it while it fails."""
    insecure: bool = False
    """Its certificate is not looked at."""

    def is_interested(self, pod: JsonObject) -> bool:
        """Tell whether a container of *pod* asks for, or limits, what this extender manages."""
        if not self.managed_resources:
            return True
        spec = pod["spec"]
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        return any(self._manages(container.get("resources") or {}) for container in containers)

    def _manages(self, resources: JsonObject) -> bool:
        return any(
            name in self.managed_resources
            for kind in ("requests", "limits")
            for name in resources.get(kind) or ()
        )


def read_policies(entries: Sequence[JsonObject]) -> tuple[ExtenderPolicy, ...]:
    """Read the list `extenders` of a KubeSchedulerConfiguration; raises `PolicyError`."""
    policies = tuple(_read(entry) for entry in entries)
    if sum(bool(policy.bind_verb) for policy in policies) > 1:
        message = "only one extender can implement bind"
        raise PolicyError(message)
    managed = [name for policy in policies for name in policy.managed_resources]
    twice = sorted({name for name in managed if managed.count(name) > 1})
    if twice:
        message = f"duplicate extender managed resource name {twice[0]}"
        raise PolicyError(message)
    return policies


def ignored_by_scheduler(policies: Iterable[ExtenderPolicy]) -> frozenset[str]:
    """Return the resources that the scheduler leaves to its extenders."""
    return frozenset(name for policy in policies for name in policy.ignored_resources)


def _read(entry: JsonObject) -> ExtenderPolicy:
    unknown = sorted(entry.keys() - _KNOWN)
    if unknown:
        message = f"unknown field {unknown[0]}"
        raise PolicyError(message)
    weight = entry.get("weight") or 0
    if entry.get("prioritizeVerb") and weight <= 0:
        message = "must have a positive weight applied to it"
        raise PolicyError(message)
    resources = entry.get("managedResources") or []
    return ExtenderPolicy(
        url_prefix=_url(entry),
        filter_verb=entry.get("filterVerb") or "",
        prioritize_verb=entry.get("prioritizeVerb") or "",
        bind_verb=entry.get("bindVerb") or "",
        weight=weight,
        http_timeout_s=_seconds(entry.get("httpTimeout") or ""),
        node_cache_capable=bool(entry.get("nodeCacheCapable")),
        managed_resources=frozenset(_name(each) for each in resources),
        ignored_resources=frozenset(
            each["name"] for each in resources if each.get("ignoredByScheduler")
        ),
        ignorable=bool(entry.get("ignorable")),
        insecure=bool((entry.get("tlsConfig") or {}).get("insecure")),
    )


def _url(entry: JsonObject) -> str:
    url = str(entry.get("urlPrefix") or "").rstrip("/")
    if not url:
        message = "urlPrefix: Required value"
        raise PolicyError(message)
    return url


def _name(resource: JsonObject) -> str:
    name = str(resource.get("name") or "")
    domain, _, rest = name.partition("/")
    if not domain or not rest or domain.endswith("kubernetes.io"):
        message = f"{name!r} is an invalid extended resource name"
        raise PolicyError(message)
    return name


def _seconds(duration: str) -> float:
    if not duration:
        return _TIMEOUT_S
    if not _DURATION.fullmatch(duration):
        message = f"invalid duration {duration!r}"
        raise PolicyError(message)
    parts = _PART.findall(duration)
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts) or _TIMEOUT_S
