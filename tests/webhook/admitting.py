"""An admission without a cluster or a server: what the view of one would say is given as values."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

from gpu.refusal import Refusal
from hami.deviceconfig import DeviceConfig
from hami.requests import Valid
from kube.objects import JsonObject
from webhook.access import Access
from webhook.claims import Translation, TranslationSettings
from webhook.facts import ClusterFacts
from webhook.podadmission import PodAdmission
from webhook.podsettings import PodRules
from webhook.review import Review, UserInfo, Verdict
from webhook.templatecontent import expected_templates

NAMESPACE = "team-red"
SCHEDULER = "hami-scheduler"
FACTS = ClusterFacts(
    gpus_by_memory_mib={23028: 1, 81920: 1},
    gpus_by_shares={10: 2},
    models=frozenset({"NVIDIA A10", "NVIDIA A100-SXM4-80GB"}),
)
TWO_A10 = ClusterFacts(
    gpus_by_memory_mib={24564: 2},
    gpus_by_shares={10: 2},
    models=frozenset({"NVIDIA A10"}),
    fill_levels=True,
)


@dataclass(slots=True, kw_only=True)
class KnownCluster:
    """What is known of the cluster."""

    gpus: ClusterFacts = FACTS
    labels: Mapping[str, str] = field(default_factory=dict)
    stored_templates: dict[str, JsonObject] = field(default_factory=dict)
    stored_claims: tuple[JsonObject, ...] = ()
    stored_pods: tuple[JsonObject, ...] = ()
    is_synced: bool = True

    def facts(self) -> ClusterFacts:
        """Return what GPUs there are."""
        return self.gpus

    def namespace_labels(self, name: str) -> dict[str, str] | None:
        """Return the labels of the only namespace."""
        return dict(self.labels) if name == NAMESPACE else None

    def template_spec(self, namespace: str, name: str) -> JsonObject | None:
        """Return a template of the only namespace."""
        return self.stored_templates.get(name) if namespace == NAMESPACE else None

    def claims(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return the claims of the only namespace."""
        return self.stored_claims if namespace == NAMESPACE else ()

    def pods(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return the pods of the only namespace."""
        return self.stored_pods if namespace == NAMESPACE else ()

    def synced(self) -> bool:
        """Tell whether all of this is known."""
        return self.is_synced


@dataclass(slots=True, kw_only=True)
class KnownQuota:
    """Notes what it is asked, and always answers the same."""

    reasons: tuple[Refusal, ...] = ()
    asked: list[tuple[Valid, Translation | None]] = field(default_factory=list)

    async def check_pod(
        self, review: Review, valid: Valid, translation: Translation | None
    ) -> tuple[Refusal, ...]:
        """Note the question."""
        assert review.namespace == NAMESPACE
        self.asked.append((valid, translation))
        return self.reasons


@dataclass(slots=True, kw_only=True)
class Door:
    """A `PodAdmission` with all that it asks."""

    view: KnownCluster = field(default_factory=KnownCluster)
    quota: KnownQuota = field(default_factory=KnownQuota)
    config: DeviceConfig = field(default_factory=DeviceConfig)
    claims_serve: bool | None = True
    node_writers: frozenset[str] = frozenset()
    rules: Callable[[PodRules], PodRules] = lambda rules: rules

    def ask(self, pod: JsonObject, *, user: str = "ann") -> Verdict:
        """Return what becomes of *pod*."""
        return asyncio.run(self.open().decide(creation(pod, user=user)))

    def open(self) -> PodAdmission:
        """Return what decides."""
        policy: Any = self.config.nvidia.gpu_core_policy
        rules = PodRules(
            config=self.config,
            translation=TranslationSettings(keys=self.config.nvidia.keys, core_policy=policy),
            scheduler_name=SCHEDULER,
        )
        return PodAdmission(
            self.rules(rules),
            self.view,
            claims_serve=lambda: self.claims_serve,
            may_write_nodes=self.may_write_nodes,
            quota=self.quota,
        )

    async def may_write_nodes(self, user: UserInfo) -> Access:
        """Tell whether *user* is one of the writers."""
        return Access(allowed=user.username in self.node_writers)


def creation(item: JsonObject, *, user: str = "ann", **changes: Any) -> Review:
    """Return the question whether *item*, a pod unless *changes* say otherwise, may be created."""
    asked: dict[str, Any] = {
        "api_version": "admission.k8s.io/v1",
        "uid": "review-1",
        "operation": "CREATE",
        "group": "",
        "resource": "pods",
        "subresource": "",
        "namespace": NAMESPACE,
        "name": "",
        "user": UserInfo(username=user),
        "item": item,
        "old_item": None,
        "dry_run": False,
    }
    return Review(**asked | changes)


def admitted(pod: JsonObject, verdict: Verdict) -> JsonObject:
    """Return *pod* as an independent library patches it; it must be allowed."""
    assert verdict.allowed, verdict.message
    patched: JsonObject = jsonpatch.apply_patch(pod, list(verdict.patch))
    return patched


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The pod as it would be stored, or why it would not."""

    pod: JsonObject
    claims: tuple[JsonObject, ...] = ()
    """The specs of its claims, in the order of their names in the pod."""
    refused: str = ""
    """All reasons in one text; empty for a pod that is allowed."""
    warned: tuple[str, ...] = ()


Ask = Callable[[PodAdmission, Review], Verdict]


def _ask(admission: PodAdmission, review: Review) -> Verdict:
    return asyncio.run(admission.decide(review))


def decide(
    pod: JsonObject,
    config: DeviceConfig,
    *,
    claims_serve: bool,
    view: KnownCluster | None = None,
    ask: Ask = _ask,
) -> Decided:
    """Return what becomes of a new *pod*, in a cluster of two A10 that can serve claims or not.

    *ask* takes the question to the decision, by a way of its own.
    """
    door = Door(view=view or KnownCluster(gpus=TWO_A10), config=config, claims_serve=claims_serve)
    verdict = ask(door.open(), creation(deepcopy(pod)))
    if not verdict.allowed:
        return Decided(pod=pod, refused=verdict.message, warned=verdict.warnings)
    new = admitted(deepcopy(pod), verdict)
    return Decided(pod=new, claims=tuple(_claims(new)), warned=verdict.warnings)


def _claims(pod: JsonObject) -> Iterator[JsonObject]:
    templates = expected_templates(pod)
    assert not isinstance(templates, Refusal), templates
    for entry in pod["spec"].get("resourceClaims", ()):
        name = entry.get("resourceClaimTemplateName")
        if name in templates:
            yield templates[name]
