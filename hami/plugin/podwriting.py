"""Writes on a pod that devices were handed out, or that they never will be.

One patch for each call, on the version of the pod that was read. Whether a patch that got no
answer was carried out is unknown, so the pod is read again and says it.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from gpu.refusal import Refusal, RefusedError
from hami import keys
from hami.plugin import claimants
from hami.plugin.claimants import TO_ALLOCATE, Claimant
from hami.plugin.finding import Finder
from hami.plugin.insisting import insist
from hami.poddevices import encode_pod_devices
from kube.backoff import Backoff
from kube.client import MERGE_PATCH, Client
from kube.errors import ForbiddenError, InvalidError, KubeError, NotFoundError, UnauthorizedError
from kube.paths import pods

log = structlog.get_logger(__name__)

_TRIES: Final = 4


class PodWriter:
    """Patches pods."""

    def __init__(self, client: Client, finder: Finder) -> None:
        self._client, self._finder = client, finder

    def hand_out(
        self, claimant: Claimant, places: Sequence[int], extra: Mapping[str, str] | None = None
    ) -> bool:
        """Write that *places* have their devices, with *extra* annotations.

        Returns whether nothing is to come any more, of any vendor. Raises `RefusedError` when the
        pod has changed otherwise meanwhile, and `KubeError`.
        """
        before = claimant.annotations[TO_ALLOCATE]
        after = encode_pod_devices(claimant.without(places).left)
        pause = Backoff(first_s=0.1, max_s=0.8)
        for left in range(_TRIES - 1, -1, -1):
            annotations, is_done = _handed_out(claimant, after, extra or {})
            try:
                self._patch(claimant, annotations, on_version=True)
            except (ForbiddenError, UnauthorizedError, InvalidError):
                raise
            except KubeError:
                claimant = self._again(claimant)
                if _has(claimant.annotations, annotations):
                    return is_done
                if claimant.annotations.get(TO_ALLOCATE) != before:
                    raise RefusedError(_changed(claimant)) from None
                if not left:
                    raise
                time.sleep(pause.next_s())
            else:
                return is_done
        raise AssertionError  # The last try has returned or raised.

    def fail(self, claimant: Claimant) -> None:
        """Write that the pod will not get its devices; raises nothing."""
        annotations = {keys.BIND_PHASE: claimants.FAILED}
        try:
            insist(
                lambda: self._patch(claimant, annotations, on_version=False),
                but_not=(NotFoundError,),
            )
        except KubeError as error:
            log.warning("bind phase not written", reason=str(error))

    def _again(self, claimant: Claimant) -> Claimant:
        pod = self._finder.pod(claimant.identity.key)
        if pod is None or claimants.identity_of(pod) != claimant.identity:
            raise RefusedError(_changed(claimant))
        return claimants.reread(claimant, pod)

    def _patch(
        self, claimant: Claimant, annotations: Mapping[str, str], *, on_version: bool
    ) -> None:
        identity = claimant.identity
        version = {"resourceVersion": claimant.resource_version} if on_version else {}
        metadata = {"uid": identity.uid, "annotations": dict(annotations), **version}
        path = pods(identity.key.namespace, identity.key.name)
        self._client.patch(path, {"metadata": metadata}, content_type=MERGE_PATCH)


def _handed_out(
    claimant: Claimant, after: str, extra: Mapping[str, str]
) -> tuple[dict[str, str], bool]:
    annotations = {TO_ALLOCATE: after, **extra}
    is_done = not claimants.has_more({**claimant.annotations, TO_ALLOCATE: after})
    if is_done:
        annotations[keys.BIND_PHASE] = claimants.SUCCESS
    return annotations, is_done


def _has(annotations: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(annotations.get(key) == text for key, text in wanted.items())


def _changed(claimant: Claimant) -> Refusal:
    return Refusal(
        code="PodChanged",
        field="pod",
        value=str(claimant.identity.key),
        limit="it was changed or deleted while its devices were handed out",
    )
