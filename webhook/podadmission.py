"""The decision about a new pod: in which order things are looked at, and what comes of them.

All that is wrong with a pod is said at once. What only schedulers may write is looked at first,
whoever schedules the pod, because an allocation that was forged is believed by all of them. A
limit for NVIDIA's GPUs becomes a claim where the cluster can serve claims for shares; requests of
other vendors, and on older clusters all of them, are prepared for HAMi's scheduler.

A pod may come twice: the API server asks again after other webhooks have changed it. Then our own
resources are gone and the claims are there.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from gpu.refusal import Refusal
from hami import resources
from hami.containers import all_containers
from hami.deviceconfig import DeviceConfig
from hami.preferences import Preferences
from hami.requests import NVIDIA, Absent, ContainerRequest, Invalid, Valid
from kube.objects import JsonObject
from webhook import podrules
from webhook.access import Access
from webhook.claims import Translation, TranslationSettings, translate
from webhook.claimspec import CLASSES
from webhook.environment import (
    EnvironmentRules,
    check_environment,
    promoted,
    released,
    share_containers,
)
from webhook.facts import ClusterFacts
from webhook.guard import guard
from webhook.legacy import patch_for, write_edits, write_scheduler
from webhook.patching import Patch
from webhook.requestannotation import ANNOTATION
from webhook.review import ALLOWED, Review, UserInfo, Verdict, refused
from webhook.sharedpods import ClusterObjects, NamespaceLookup, check_pod_claims
from webhook.shares import ClaimRules, check_configs
from webhook.templatecontent import expected_templates, is_genuine
from webhook.uncontrolled import is_granted

_BY_THE_DRIVER: Final = frozenset(
    {"CUDA_TASK_PRIORITY", "GPU_CORE_UTILIZATION_POLICY", "NVIDIA_VISIBLE_DEVICES"}
)
"""Variables of NVIDIA's containers that are not written where claims say the same."""

NOT_READY: Final = "NotReady"
_CANNOT_HELP: Final = 500


class Knowledge(ClusterObjects, Protocol):
    """What is asked of the view of the cluster."""

    def facts(self) -> ClusterFacts:
        """Return what GPUs there are."""

    def namespace_labels(self, name: str) -> dict[str, str] | None:
        """Return the labels of a namespace, `None` for one that is not known."""

    def synced(self) -> bool:
        """Tell whether everything is known that decisions need."""


class PodQuota(Protocol):
    """What is asked of the quotas."""

    async def check_pod(
        self, review: Review, valid: Valid, translation: Translation | None
    ) -> tuple[Refusal, ...]:
        """Return what speaks against the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """What the administrator decides about pods."""

    config: DeviceConfig
    translation: TranslationSettings
    scheduler_name: str
    force_overwrite: bool = True
    least_memory_mib: int = 512
    """Smaller shares are warned about."""
    uncontrolled_namespaces: Collection[str] = ()
    classes: frozenset[str] = CLASSES
    """DeviceClasses that give devices of ours."""
    environment_warns: bool = False
    """Variables that undo limits are a warning."""
    promotes: bool = False
    """A container that opts out of its limits gets a whole GPU instead of a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What was found about a pod; *patch* counts only without reasons."""

    patch: tuple[JsonObject, ...] = ()
    reasons: tuple[Refusal, ...] = ()
    warnings: tuple[Refusal, ...] = ()
    translation: Translation | None = None
    valid: Valid | None = None
    """What quotas have to be asked about."""


class PodAdmission:
    """Decides about pods that are created."""

    def __init__(
        self,
        rules: PodRules,
        view: Knowledge,
        *,
        claims_serve: Callable[[], bool | None],
        may_write_nodes: Callable[[UserInfo], Awaitable[Access]],
        quota: PodQuota | None,
    ) -> None:
        """Prepare; *claims_serve* tells whether requests become claims, `None` if not known."""
        self._rules = rules
        self._view = view
        self._claims_serve = claims_serve
        self._may_write_nodes = may_write_nodes
        self._quota = quota
        owned = (vendor.owned_keys for vendor in rules.config.vendors)
        self._owned_keys = frozenset[str]().union(*owned)

    async def decide(self, review: Review) -> Verdict:
        """Return what becomes of the pod in *review*."""
        pod = review.item or {}
        forged = await guard(review, self._may_write_nodes, more=self._owned_keys)
        outcome = self._look_at(pod, review.namespace)
        reasons = (*forged, *outcome.reasons)
        warnings = tuple(str(each) for each in outcome.warnings)
        if reasons:
            return _refused(reasons, warnings)
        if outcome.valid is not None and self._quota is not None:
            reasons = await self._quota.check_pod(review, outcome.valid, outcome.translation)
            if reasons:
                return _refused(reasons, warnings)
        return replace(ALLOWED, patch=outcome.patch, warnings=warnings)

    def _look_at(self, pod: JsonObject, namespace: str) -> _Outcome:
        if podrules.is_mirror(pod):
            return _Outcome()
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
        if not isinstance(read, Valid) and not found and not self._has_claims(pod):
            return self._without_devices(pod, read)
        claims_serve = self._claims_serve()
        if claims_serve is None or not self._view.synced():
            return _Outcome(reasons=(*found, _not_ready()))
        if isinstance(read, Valid) and not claims_serve:
            chosen = self._scheduler_decision(pod)
            if not chosen.take:
                warned = (*read.warnings, *((chosen.warning,) if chosen.warning else ()))
                return _Outcome(reasons=tuple(found), warnings=warned)
        lookup = NamespaceLookup(
            self._view, namespace, more_templates=known, classes=self._rules.classes
        )
        return self._with_devices(pod, lookup, read, tuple(found), claims_serve=claims_serve)

    def _unreadable(self, pod: JsonObject, namespace: str, read: Invalid) -> _Outcome:
        """Return what is wrong with *pod*, also beside what could not be read."""
        readable = Valid(requests=read.requests, preferences=read.preferences)
        environment = check_environment(pod, readable, self._environment_rules(namespace))
        return _Outcome(
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
    ) -> _Outcome:
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
            done = self._without_devices(pod, read)
            return replace(done, reasons=tuple(reasons), warnings=tuple(warnings))
        if not claims_serve:
            patch = patch_for(pod, read, scheduler_name=self._rules.scheduler_name)
            return _Outcome(
                patch=patch, reasons=tuple(reasons), warnings=tuple(warnings), valid=read
            )
        others = [each for each in read.requests if any(d.word != NVIDIA for d in each.devices)]
        chosen = self._scheduler_decision(pod)
        if others and chosen.warning:
            warnings.append(chosen.warning)
        made = self._translated(pod, read, others if chosen.take else ())
        warnings += made.warnings
        if isinstance(made, Invalid):
            return _Outcome(reasons=(*reasons, *made.reasons), warnings=tuple(warnings))
        reasons += self._unusable(lookup.namespace, made.templates)
        return _Outcome(
            patch=made.patch,
            reasons=tuple(reasons),
            warnings=tuple(warnings),
            translation=made,
            valid=read,
        )

    def _without_devices(self, pod: JsonObject, read: Absent) -> _Outcome:
        """Return what becomes of a pod that asks for no device in HAMi's words."""
        if self._claims_serve() and self._keeps_it_pending(pod):
            nothing = Valid(requests=read.requests, preferences=Preferences())
            made = self._translated(pod, nothing)
            return _Outcome(patch=getattr(made, "patch", ()), warnings=read.warnings)
        patch = patch_for(pod, read, scheduler_name=self._rules.scheduler_name)
        return _Outcome(patch=patch, warnings=read.warnings)

    def _keeps_it_pending(self, pod: JsonObject) -> bool:
        """Tell whether *pod* names amounts of resources that no node of this cluster has."""
        for container in all_containers(pod):
            resources_of = container.raw.get("resources")
            amounts = resources_of.get("limits") if isinstance(resources_of, dict) else None
            if not isinstance(amounts, dict):
                continue
            named = self._rules.translation.keys & amounts.keys()
            if any(str(amounts[key]) != "0" for key in named):
                return True
        return False

    def _translated(
        self, pod: JsonObject, read: Valid, others: Collection[ContainerRequest] = ()
    ) -> Translation | Invalid:
        """Return the claims for *read*; *others* are prepared for HAMi's scheduler beside them."""

        def write_others(patch: Patch) -> None:
            if others:
                leave = self._rules.translation.keys | _BY_THE_DRIVER
                write_edits(patch, pod, others, leave=leave)
                write_scheduler(patch, pod, self._rules.scheduler_name)

        facts, settings = self._view.facts(), self._rules.translation
        return translate(pod, read, facts, settings, beside=write_others)

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
            if stored is not None and not is_genuine(name, stored):
                found.append(_foreign(name))
        return tuple(found)

    def _scheduler_decision(self, pod: JsonObject) -> podrules.SchedulerDecision:
        return podrules.scheduler_decision(
            pod,
            scheduler_name=self._rules.scheduler_name,
            force_overwrite=self._rules.force_overwrite,
        )

    def _environment_rules(self, namespace: str) -> EnvironmentRules:
        labels = self._view.namespace_labels(namespace)
        listed = self._rules.uncontrolled_namespaces
        return EnvironmentRules(
            warn_only=self._rules.environment_warns,
            may_be_unlimited=is_granted(namespace, labels, listed=listed),
        )

    @staticmethod
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


def _refused(reasons: tuple[Refusal, ...], warnings: tuple[str, ...]) -> Verdict:
    ours = any(each.code == NOT_READY for each in reasons)
    return refused(reasons, code=_CANNOT_HELP if ours else 403, warnings=warnings)


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
