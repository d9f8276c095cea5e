"""What is found about a new pod, and with it what becomes of it: everything but the quotas.

All that is wrong with a pod is said at once. A pod may come twice: the API server asks again after
other webhooks have changed it. Then our own resources are gone and the claims are there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from gpu.refusal import Refusal
from hami import resources
from hami.requests import Absent, Invalid, Valid
from kube.objects import JsonObject
from webhook import podrules
from webhook.claims import Translation
from webhook.environment import (
    EnvironmentRules,
    check_environment,
    promoted,
    released,
    share_containers,
)
from webhook.facts import ClusterFacts
from webhook.podsettings import PodRules
from webhook.podwriting import PodWriter
from webhook.requestannotation import ANNOTATION
from webhook.sharedpods import ClusterObjects, NamespaceLookup, check_pod_claims
from webhook.shares import ClaimRules, check_configs
from webhook.templatecontent import expected_templates, is_genuine
from webhook.uncontrolled import is_granted

NOT_READY: Final = "NotReady"


class Knowledge(ClusterObjects, Protocol):
    """What is asked of the view of the cluster."""

    def facts(self) -> ClusterFacts:
        """Return what GPUs there are."""

    def namespace_labels(self, name: str) -> dict[str, str] | None:
        """Return the labels of a namespace, `None` for one that is not known."""

    def synced(self) -> bool:
        """Tell whether everything is known that decisions need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was found about a pod; *patch* counts only without reasons."""

    patch: tuple[JsonObject, ...] = ()
    reasons: tuple[Refusal, ...] = ()
    warnings: tuple[Refusal, ...] = ()
    translation: Translation | None = None
    valid: Valid | None = None
    """What quotas have to be asked about."""


class PodLooking:
    """Looks at pods, one by one."""

    def __init__(
        self, rules: PodRules, view: Knowledge, claims_serve: Callable[[], bool | None]
    ) -> None:
        """Prepare; *claims_serve* tells whether requests become claims, `None` if not known."""
        self._rules = rules
        self._view = view
        self._claims_serve = claims_serve
        self._writer = PodWriter(rules, view.facts)

    def look_at(self, pod: JsonObject, namespace: str) -> Outcome:
        """Return what is wrong with *pod*, and what becomes of it otherwise."""
        if podrules.is_mirror(pod):
            return Outcome()
        read = resources.read(
            pod, self._rules.config, least_memory_mib=self._rules.least_memory_mib
        )
        if isinstance(read, Invalid):
            return self._unreadable(pod, namespace, read)
        brought = _brought(pod)
        known = {} if isinstance(brought, Refusal) else brought
        unusable = self._unusable(namespace, known)
        found = [*podrules.without_containers(pod), *unusable]
        found += [brought] if isinstance(brought, Refusal) else []
        if not isinstance(read, Valid) and not found and not _has_claims(pod):
            serve = bool(self._claims_serve())
            patch = self._writer.without_devices(pod, read, claims_serve=serve)
            return Outcome(patch=patch, warnings=read.warnings)
        claims_serve = self._claims_serve()
        if claims_serve is None or not self._view.synced():
            return Outcome(reasons=(*found, _not_ready()))
        if isinstance(read, Valid) and not claims_serve:
            chosen = self._writer.scheduler_decision(pod)
            if not chosen.take:
                warned = (*read.warnings, *((chosen.warning,) if chosen.warning else ()))
                return Outcome(reasons=tuple(found), warnings=warned)
        lookup = NamespaceLookup(
            self._view, namespace, more_templates=known, classes=self._rules.classes
        )
        return self._with_devices(pod, lookup, read, tuple(found), claims_serve=claims_serve)

    def _unreadable(self, pod: JsonObject, namespace: str, read: Invalid) -> Outcome:
        """Return what is wrong with *pod*, also beside what could not be read."""
        readable = Valid(requests=read.requests, preferences=read.preferences)
        environment = check_environment(pod, readable, self._environment_rules(namespace))
        return Outcome(
            reasons=(*read.reasons, *podrules.with_devices(pod), *environment.reasons),
            warnings=(*read.warnings, *environment.warnings),
        )

    def _with_devices(
        self,
        pod: JsonObject,
        lookup: NamespaceLookup,
        read: Absent | Valid,
        found: tuple[Refusal, ...],
        *,
        claims_serve: bool,
    ) -> Outcome:
        asks = isinstance(read, Valid) or bool(lookup.more_templates)
        reasons = [*found, *(podrules.with_devices(pod) if asks else ())]
        warnings = list(read.warnings)
        rules = self._environment_rules(lookup.namespace)
        if isinstance(read, Valid) and claims_serve:
            if rules.may_be_unlimited:
                read = released(read)
            elif self._rules.promotes:
                read = promoted(read)
        environment = check_environment(pod, read, rules, lookup)
        reasons += environment.reasons
        warnings += environment.warnings
        sharing = share_containers(read) if claims_serve else frozenset[str]()
        reasons += check_pod_claims(pod, lookup, sharing=sharing)
        if not isinstance(read, Valid):
            patch = self._writer.without_devices(pod, read, claims_serve=claims_serve)
            return Outcome(patch=patch, reasons=tuple(reasons), warnings=tuple(warnings))
        if not claims_serve:
            patch = self._writer.for_scheduler(pod, read)
            return Outcome(
                patch=patch, reasons=tuple(reasons), warnings=tuple(warnings), valid=read
            )
        made, warned = self._writer.with_claims(pod, read)
        warnings += (*warned, *made.warnings)
        if isinstance(made, Invalid):
            return Outcome(reasons=(*reasons, *made.reasons), warnings=tuple(warnings))
        reasons += self._unusable(lookup.namespace, made.templates)
        return Outcome(
            patch=made.patch,
            reasons=tuple(reasons),
            warnings=tuple(warnings),
            translation=made,
            valid=read,
        )

    def _unusable(self, namespace: str, templates: Mapping[str, JsonObject]) -> tuple[Refusal, ...]:
        """Return why *templates* would not be made or must not be used in *namespace*."""
        rules = ClaimRules(
            may_be_unlimited=self._environment_rules(namespace).may_be_unlimited,
            may_ignore_cores=self._rules.translation.core_policy == "disable",
        )
        found: list[Refusal] = []
        for name, spec in templates.items():
            found += check_configs(spec, rules=rules, field=f"{name}.spec")
            stored = self._view.template_spec(namespace, name)
            # The same content needs no hash to be the one that the name stands for.
            if stored is not None and stored != spec and not is_genuine(name, stored):
                found.append(_foreign(name))
        return tuple(found)

    def _environment_rules(self, namespace: str) -> EnvironmentRules:
        labels = self._view.namespace_labels(namespace)
        listed = self._rules.uncontrolled_namespaces
        return EnvironmentRules(
            warn_only=self._rules.environment_warns,
            may_be_unlimited=is_granted(namespace, labels, listed=listed),
            core_policy=self._rules.config.nvidia.gpu_core_policy,
        )


def _has_claims(pod: JsonObject) -> bool:
    spec = pod.get("spec")
    return bool(isinstance(spec, dict) and spec.get("resourceClaims"))


def _brought(pod: JsonObject) -> Mapping[str, JsonObject] | Refusal:
    """Return the templates that *pod* needs if it has been here before, or says so."""
    metadata = pod.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict) or ANNOTATION not in annotations:
        return {}
    return expected_templates(pod)


def _not_ready() -> Refusal:
    return Refusal(
        code=NOT_READY,
        field="webhook",
        value="starting",
        limit="the cluster has not been read yet",
        remedy="try again in a few seconds",
    )


def _foreign(name: str) -> Refusal:
    return Refusal(
        code="TemplateForeign",
        field="spec.resourceClaims",
        value=name,
        limit="a ResourceClaimTemplate of this name has another content than its name says",
        remedy="delete that template",
    )
