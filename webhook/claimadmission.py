"""The decision about a new ResourceClaim or ResourceClaimTemplate.

A claim is what books devices, so what was checked when its pod came is checked again: the quota,
since other claims have come meanwhile, and the content, since the control plane makes claims of
whatever template bears the name.
"""

import asyncio
import json
from collections.abc import Collection
from dataclasses import replace
from typing import Protocol

from gpu.refusal import Refusal
from kube.client import Client
from kube.errors import KubeError, NotFoundError
from kube.objects import JsonObject
from kube.paths import pods
from webhook.facts import ClusterFacts
from webhook.ownclaims import check_generated_claim, check_template, owner_of
from webhook.quotaverdict import PASSING
from webhook.review import ALLOWED, CANNOT_HELP, Review, Verdict, refused
from webhook.shares import ClaimRules, check_claim_spec
from webhook.uncontrolled import is_granted


class Knowledge(Protocol):
    """What is asked of the view of the cluster."""

    def facts(self) -> ClusterFacts:
        """Return what GPUs there are."""

    def namespace_labels(self, name: str) -> dict[str, str] | None:
        """Return the labels of a namespace, `None` for one that is not known."""

    def pods(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return pods of a namespace, not necessarily all."""


class ClaimQuota(Protocol):
    """What is asked of the quotas."""

    async def check_claim(self, review: Review) -> tuple[Refusal, ...]:
        """Return what speaks against the claim."""


class ClaimAdmission:
    """Decides about claims and templates that are created."""

    def __init__(
        self,
        view: Knowledge,
        client: Client,
        *,
        uncontrolled_namespaces: Collection[str],
        quota: ClaimQuota | None,
        rules: ClaimRules | None = None,
    ) -> None:
        """Prepare; *client* is asked for pods that *view* does not know yet.

        *rules* hold for all namespaces; those that were granted it may be unlimited besides.
        """
        self._view = view
        self._client = client
        self._uncontrolled_namespaces = uncontrolled_namespaces
        self._quota = quota
        self._rules = rules or ClaimRules()

    async def decide_claim(self, review: Review) -> Verdict:
        """Return whether the ResourceClaim in *review* may be."""
        claim = review.item or {}
        reasons = self._check_spec(_object(claim, "spec"), review.namespace, "spec")
        if (owner := owner_of(claim)) is not None:
            pod = await self._pod(review.namespace, name=owner.name, uid=owner.uid)
            reasons += check_generated_claim(claim, pod)
        if not reasons and self._quota is not None:
            reasons = await self._quota.check_claim(review)
        return _verdict(reasons)

    async def decide_template(self, review: Review) -> Verdict:
        """Return whether the ResourceClaimTemplate in *review* may be."""
        template = review.item or {}
        spec = _object(_object(template, "spec"), "spec")
        reasons = self._check_spec(spec, review.namespace, "spec.spec")
        return _verdict((*reasons, *check_template(template)))

    def _check_spec(self, spec: JsonObject, namespace: str, field: str) -> tuple[Refusal, ...]:
        granted = is_granted(
            namespace,
            self._view.namespace_labels(namespace),
            listed=self._uncontrolled_namespaces,
        )
        rules = replace(self._rules, may_be_unlimited=granted)
        return check_claim_spec(spec, rules=rules, facts=self._view.facts(), field=field)

    async def _pod(self, namespace: str, *, name: str, uid: str) -> JsonObject | None:
        """Return the pod from the view, or as the API server has it, if it has that UID."""
        for each in self._view.pods(namespace):
            if each["metadata"].get("uid") == uid:
                return each
        try:
            return json_object(await asyncio.to_thread(self._client.get, pods(namespace, name)))
        except NotFoundError:
            return None
        except (KubeError, ValueError) as error:
            message = f"pod {namespace}/{name} was not read"
            raise RuntimeError(message) from error


def json_object(raw: bytes) -> JsonObject:
    """Return the object in *raw*; raises `ValueError`."""
    found = json.loads(raw)
    if not isinstance(found, dict):
        message = "no object"
        raise ValueError(message)  # noqa: TRY004 - as for text that is no JSON
    return found


def _object(holder: JsonObject, key: str) -> JsonObject:
    found = holder.get(key)
    return found if isinstance(found, dict) else {}


def _verdict(reasons: tuple[Refusal, ...]) -> Verdict:
    if not reasons:
        return ALLOWED
    passes = any(each.code in PASSING for each in reasons)
    return refused(reasons, code=CANNOT_HELP if passes else 403)
