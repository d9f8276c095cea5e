"""What becomes of a pod in both modes, by the webhook's decision and without a server."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

from gpu.refusal import Refusal
from hami.deviceconfig import DeviceConfig
from kube.objects import JsonObject
from webhook.access import Access
from webhook.claims import TranslationSettings
from webhook.facts import ClusterFacts
from webhook.podadmission import PodAdmission, PodRules
from webhook.review import Review, UserInfo, Verdict
from webhook.templatecontent import expected_templates

SCHEDULER = "hami-scheduler"
FACTS = ClusterFacts(
    gpus_by_memory_mib={24564: 2},
    gpus_by_shares={10: 2},
    models=frozenset({"NVIDIA A10"}),
    fill_levels=True,
)
"""A cluster of two A10 with 24564 MiB each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The pod as it would be stored, or why it would not."""

    pod: JsonObject
    claims: tuple[JsonObject, ...] = ()
    """The specs of its claims, in the order of their names in the pod."""
    refused: str = ""
    """All reasons in one text; empty for a pod that is allowed."""
    warned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StillView:
    """A cluster in which nothing happens."""

    gpus: ClusterFacts = FACTS
    labels: Mapping[str, str] = field(default_factory=dict)

    def facts(self) -> ClusterFacts:
        """Return what GPUs there are."""
        return self.gpus

    def namespace_labels(self, name: str) -> dict[str, str] | None:
        """Return the same labels for every namespace."""
        return {**self.labels, "kubernetes.io/metadata.name": name}

    def synced(self) -> bool:
        """Tell that all is known."""
        return True

    def template_spec(self, namespace: str, name: str) -> JsonObject | None:
        """Return that there is none."""
        del namespace, name
        return None

    def claims(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return that there are none."""
        del namespace
        return ()

    def pods(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return that there are none."""
        del namespace
        return ()


Ask = Callable[[PodAdmission, Review], Verdict]


def _ask(admission: PodAdmission, review: Review) -> Verdict:
    return asyncio.run(admission.decide(review))


async def _nobody(_user: UserInfo) -> Access:
    return Access(allowed=False)


def decide(
    pod: JsonObject,
    config: DeviceConfig,
    *,
    claims_serve: bool,
    view: StillView | None = None,
    ask: Ask | None = None,
    **settings: Any,
) -> Decided:
    """Return what becomes of a new *pod*, in a cluster that can serve claims or not.

    *ask* takes the question to the decision, by a way of its own.
    """
    policy: Any = config.nvidia.gpu_core_policy
    translation = TranslationSettings(keys=config.nvidia.keys, core_policy=policy, **settings)
    rules = PodRules(config=config, translation=translation, scheduler_name=SCHEDULER)
    admission = PodAdmission(
        rules,
        view or StillView(),
        claims_serve=lambda: claims_serve,
        may_write_nodes=_nobody,
        quota=None,
    )
    verdict = (ask or _ask)(admission, _review(pod))
    if not verdict.allowed:
        return Decided(pod=pod, refused=verdict.message, warned=verdict.warnings)
    new: JsonObject = jsonpatch.apply_patch(deepcopy(pod), list(verdict.patch))
    return Decided(pod=new, claims=tuple(_claims(new)), warned=verdict.warnings)


def _review(pod: JsonObject) -> Review:
    metadata = pod.get("metadata") or {}
    return Review(
        api_version="admission.k8s.io/v1",
        uid="review",
        operation="CREATE",
        group="",
        resource="pods",
        subresource="",
        namespace=metadata.get("namespace", "default"),
        name=metadata.get("name", ""),
        user=UserInfo(username="somebody"),
        item=deepcopy(pod),
        old_item=None,
        dry_run=False,
    )


def _claims(pod: JsonObject) -> Iterator[JsonObject]:
    templates = expected_templates(pod)
    assert not isinstance(templates, Refusal), templates
    for entry in pod["spec"].get("resourceClaims", ()):
        name = entry.get("resourceClaimTemplateName")
        if name in templates:
            yield templates[name]


def missing(wanted: Any, found: Any, path: str = "") -> Iterator[str]:
    """Yield where *found* lacks what *wanted* has.

    Of objects only the keys of *wanted* count, `...` standing for a key that may not be there; of
    lists each entry of *wanted* must be in one of *found*; a function is asked.
    """
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            yield from _missing_below(value, found, key, path)
    elif isinstance(wanted, list) and isinstance(found, list):
        for index, value in enumerate(wanted):
            if not any(_is_in(value, each) for each in found):
                yield f"{path}[{index}]: nothing like {value!r} in {found!r}"
    elif not (wanted(found) if callable(wanted) else wanted == found):
        yield f"{path} is {found!r} and not {wanted!r}"


def _missing_below(wanted: Any, found: JsonObject, key: str, path: str) -> Iterator[str]:
    below = f"{path}.{key}"
    if wanted is ...:
        if key in found:
            yield f"{below} is there: {found[key]!r}"
    elif key not in found:
        yield f"{below} is missing"
    else:
        yield from missing(wanted, found[key], below)


def _is_in(wanted: Any, found: Any) -> bool:
    return next(missing(wanted, found), None) is None
