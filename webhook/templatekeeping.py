"""The claim templates of one namespace: what is missing is made, what is idle is deleted.

Everything is computed anew from what is seen, and what is remembered (since when something is
idle, when to try again, what was said) may be lost: the times only begin anew.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

import structlog

from gpu.refusal import Refusal
from kube.backoff import Backoff
from kube.client import Client
from kube.errors import ConflictError, ForbiddenError, InvalidError, KubeError, NotFoundError
from kube.events import EventRecorder, Regarding
from kube.objects import JsonObject
from kube.paths import DRA_VERSION, resource_claim_templates
from webhook.requestannotation import FORMAT_VERSION
from webhook.templateplan import Complaint, Needed, Plan, uid_of
from webhook.trimming import MANAGED_BY, MANAGER, Template

log = structlog.get_logger(__name__)

FORMAT_ANNOTATION: Final = "gpuslice.io/template-format"

_API_VERSION: Final = f"resource.k8s.io/{DRA_VERSION}"
_KIND: Final = "ResourceClaimTemplate"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplatePace:
    """The times of the controller."""

    grace_s: float = 60.0
    """How long a template stays after its last use: a rolling update needs it again."""
    resync_s: float = 60.0
    sync_wait_s: float = 0.2
    standby_s: float = 0.5
    """How often one that does not lead looks whether it does."""
    first_retry_s: float = 0.2
    max_retry_s: float = 60.0
    seen_within_s: float = 5.0
    """How long a template just made may take to be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What all namespaces share; *leads* is asked before each write."""

    client: Client
    events: EventRecorder
    leads: Callable[[], bool]
    clock: Callable[[], float]
    pace: TemplatePace


@dataclass(slots=True)
class NamespaceKeeper:
    """Remembers what plans do not say."""

    namespace: str
    tools: Tools
    _last_used_s: dict[str, float] = field(default_factory=dict)
    """By UID of each idle template: since when, as far as was seen."""
    _told: frozenset[tuple[str, str, str]] = frozenset()
    _blamed: frozenset[str] = frozenset()
    _tries: dict[str, tuple[Backoff, float]] = field(default_factory=dict)
    """By name of each template that is missing: when to try (again)."""

    def follow(self, plan: Plan) -> None:
        """Do what *plan* says, as far as it is due."""
        self._complain(plan.complaints)
        missing = {each.name for each in plan.create}
        self._tries = {name: tried for name, tried in self._tries.items() if name in missing}
        for needed in plan.create:
            if self._is_due(needed.name) and self.tools.leads():
                self._create(needed)
        self._delete_idle(plan.idle)

    def due_s(self) -> float | None:
        """Return when there is something to do if nothing changes."""
        tries = [due_s for _, due_s in self._tries.values()]
        graces = [since_s + self.tools.pace.grace_s for since_s in self._last_used_s.values()]
        return min([*tries, *graces], default=None)

    def _is_due(self, name: str) -> bool:
        tried = self._tries.get(name)
        return tried is None or self.tools.clock() >= tried[1]

    def _create(self, needed: Needed) -> None:
        body = template_body(self.namespace, needed)
        try:
            self.tools.client.create(resource_claim_templates(self.namespace), body)
        except ConflictError:
            # Somebody was faster, and the watch will tell what it is.
            self._retry_later(needed.name)
        except (ForbiddenError, InvalidError) as error:
            self._retry_later(needed.name)
            self._tell(needed.pods, _not_made(needed.name, error.message))
            log.warning("template refused", **self._names(needed.name), error=str(error))
        except KubeError as error:
            self._retry_later(needed.name)
            log.warning("template not made", **self._names(needed.name), error=str(error))
        else:
            log.info("template made", **self._names(needed.name))
            pace = self.tools.pace
            backoff = Backoff(pace.first_retry_s, pace.max_retry_s)
            self._tries[needed.name] = (backoff, self.tools.clock() + pace.seen_within_s)

    def _retry_later(self, name: str) -> None:
        pace = self.tools.pace
        backoff, _ = self._tries.get(name) or (Backoff(pace.first_retry_s, pace.max_retry_s), 0)
        self._tries[name] = (backoff, self.tools.clock() + backoff.next_s())

    def _delete_idle(self, idle: Collection[Template]) -> None:
        now_s = self.tools.clock()
        self._last_used_s = {each.uid: self._last_used_s.get(each.uid, now_s) for each in idle}
        for template in idle:
            over = now_s - self._last_used_s[template.uid] >= self.tools.pace.grace_s
            if over and self.tools.leads():
                self._delete(template)

    def _delete(self, template: Template) -> None:
        # Whatever comes of it, the next try is a grace away.
        self._last_used_s[template.uid] = self.tools.clock()
        path = resource_claim_templates(self.namespace, template.name)
        version = template.resource_version
        try:
            self.tools.client.delete(path, uid=template.uid, resource_version=version)
        except (NotFoundError, ConflictError):
            return
        except KubeError as error:
            log.warning("template not deleted", **self._names(template.name), error=str(error))
        else:
            log.info("template deleted", **self._names(template.name))

    def _complain(self, complaints: Collection[Complaint]) -> None:
        """Say on each pod once what is wrong, and once on each template that is to blame."""
        for complaint in complaints:
            if complaint.key not in self._told:
                self._tell((complaint.pod,), complaint.refusal)
            template = complaint.template
            if template is not None and template.uid not in self._blamed:
                self._blamed |= {template.uid}
                self._warn(_regarding_template(template), complaint.refusal)
        self._told = frozenset(complaint.key for complaint in complaints)

    def _tell(self, pods: Collection[JsonObject], refusal: Refusal) -> None:
        for pod in pods:
            self._warn(_regarding_pod(pod), refusal)

    def _warn(self, regarding: Regarding, refusal: Refusal) -> None:
        self.tools.events.event(regarding, "Warning", refusal.code, str(refusal))

    def _names(self, template: str) -> dict[str, str]:
        return {"namespace": self.namespace, "template": template}


def template_body(namespace: str, needed: Needed) -> JsonObject:
    """Return the object to create."""
    return {
        "apiVersion": _API_VERSION,
        "kind": _KIND,
        "metadata": {
            "name": needed.name,
            "namespace": namespace,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": {FORMAT_ANNOTATION: str(FORMAT_VERSION)},
        },
        "spec": {"spec": needed.spec},
    }


def _not_made(name: str, why: str) -> Refusal:
    return Refusal(
        code="TemplateNotMade",
        field="spec.resourceClaims",
        value=name,
        limit=f"its ResourceClaimTemplate is refused by the API server: {why}",
        remedy="it is tried again; a quota on objects or an admission policy may be in the way",
    )


def _regarding_pod(pod: JsonObject) -> Regarding:
    metadata = pod["metadata"]
    return Regarding(
        api_version="v1",
        kind="Pod",
        name=metadata["name"],
        uid=uid_of(pod),
        namespace=metadata["namespace"],
    )


def _regarding_template(template: Template) -> Regarding:
    return Regarding(
        api_version=_API_VERSION,
        kind=_KIND,
        name=template.name,
        uid=template.uid,
        namespace=template.namespace,
    )
