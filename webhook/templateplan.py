"""Which claim templates a namespace needs, has and does not need any more; decides, does nothing.

A pod that is alive needs its templates whether its claims exist yet or not: that is told by the
pod alone, and an unneeded template costs nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from gpu.refusal import Refusal
from hami.quota import is_over
from kube.objects import JsonObject
from webhook.requestannotation import ANNOTATION
from webhook.templatecontent import expected_templates, is_genuine
from webhook.trimming import Template, is_translated

log = structlog.get_logger(__name__)

Expected = Mapping[str, JsonObject] | Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """A template that is not there, and the pods that wait for it."""

    name: str
    spec: JsonObject
    pods: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What has to be said on *pod*, and on *template* if one is to blame."""

    pod: JsonObject
    refusal: Refusal
    template: Template | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Tell it from others, and not from itself a minute later."""
        blamed = self.template.uid if self.template else ""
        return (uid_of(self.pod), blamed, str(self.refusal))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do in one namespace."""

    create: tuple[Needed, ...] = ()
    used: frozenset[str] = frozenset()
    """UIDs of templates of ours that a pod needs."""
    idle: tuple[Template, ...] = ()
    """Templates of ours that no pod needs."""
    complaints: tuple[Complaint, ...] = ()


@dataclass(slots=True)
class Reader:
    """Reads the pods and templates of one namespace, each once as long as it stays the same."""

    expected: Callable[[JsonObject], Expected] = expected_templates
    _pods: dict[str, tuple[object, Expected]] = field(default_factory=dict)
    _genuine: dict[str, bool] = field(default_factory=dict)

    def plan(self, pods: Iterable[JsonObject], templates: Iterable[Template]) -> Plan:
        """Return what to do about *pods* and *templates*, which are all of the namespace."""
        needed, complaints = self._needed(pods)
        there = {each.name: each for each in templates}
        genuine = {each.name for each in there.values() if self._is_genuine(each)}
        self._genuine = {each.uid: each.name in genuine for each in there.values()}
        for name in needed.keys() & there.keys() - genuine:
            complaints += [_foreign(pod, there[name]) for pod in needed[name].pods]
        ours = [each for each in there.values() if each.name in genuine and each.is_labelled]
        return Plan(
            create=tuple(each for name, each in needed.items() if name not in there),
            used=frozenset(each.uid for each in ours if each.name in needed),
            idle=tuple(each for each in ours if each.name not in needed and not each.is_leaving),
            complaints=tuple(complaints),
        )

    def _needed(self, pods: Iterable[JsonObject]) -> tuple[dict[str, Needed], list[Complaint]]:
        found: dict[str, tuple[JsonObject, list[JsonObject]]] = {}
        complaints: list[Complaint] = []
        known: dict[str, tuple[object, Expected]] = {}
        for pod in pods:
            if not is_translated(pod) or not is_alive(pod):
                continue
            text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION)
            before = self._pods.get(uid_of(pod))
            same = before is not None and before[0] == text
            expected = before[1] if before is not None and same else self._expected(pod)
            known[uid_of(pod)] = (text, expected)
            if isinstance(expected, Refusal):
                complaints.append(Complaint(pod=pod, refusal=expected))
                continue
            for name, spec in expected.items():
                found.setdefault(name, (spec, []))[1].append(pod)
        self._pods = known
        needed = {
            name: Needed(name=name, spec=spec, pods=tuple(using))
            for name, (spec, using) in found.items()
        }
        return needed, complaints

    def _expected(self, pod: JsonObject) -> Expected:
        try:
            return self.expected(pod)
        except Exception as error:
            # One pod never keeps the others from their templates.
            log.exception("pod not read", pod=uid_of(pod))
            return Refusal(
                code="RequestsNotRead",
                field="metadata.annotations",
                value=ANNOTATION,
                limit=f"reading it failed: {type(error).__name__}",
                remedy="report this together with the pod",
            )

    def _is_genuine(self, template: Template) -> bool:
        # What a template makes cannot be changed.
        known = self._genuine.get(template.uid)
        return is_genuine(template.name, template.claim_spec) if known is None else known


def is_alive(pod: JsonObject) -> bool:
    """Tell whether claims may still be made for *pod*."""
    return not is_over(pod) and "deletionTimestamp" not in pod["metadata"]


def uid_of(item: JsonObject) -> str:
    """Return the UID of *item*."""
    return str(item["metadata"].get("uid", ""))


def _foreign(pod: JsonObject, template: Template) -> Complaint:
    refusal = Refusal(
        code="TemplateForeign",
        field="spec.resourceClaims",
        value=template.name,
        limit="the ResourceClaimTemplate of this name has other content and is not used",
        remedy=(
            f"find out who made it, then `kubectl delete resourceclaimtemplate -n"
            f" {template.namespace} {template.name}`: the right one is made at once"
        ),
    )
    return Complaint(pod=pod, refusal=refusal, template=template)
