"""Gives the lock of the node back when a pod has what it was to get, or will not get it.

While the lock stands, no other pod is bound to the node, for up to five minutes. So a lock that
could not be given back, or that an earlier process of this plugin may have left, is looked at again
until it is gone, is somebody else's, or has run out by itself.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping

import structlog

from hami.nodelock import TIMEOUT, Owner, may_release
from hami.plugin.claimants import is_over
from hami.plugin.finding import owner_of
from hami.plugin.insisting import insist
from hami.vendors import Lock
from kube.client import MERGE_PATCH, Client
from kube.errors import KubeError, NotFoundError
from kube.objects import JsonObject
from kube.paths import nodes, pods

log = structlog.get_logger(__name__)


class LockReleaser:
    """Removes the lock of one node; all methods may be called from any thread."""

    def __init__(
        self, client: Client, *, node: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client, self._node, self._clock = client, node, clock
        self._guard = threading.Lock()
        self._doubt_until_s: float | None = None
        self.doubt()  # An earlier process may have ended between two writes.

    @property
    def is_doubted(self) -> bool:
        """Whether `tidy` has something to do."""
        return self._doubt_until_s is not None

    def release(self, owner: Owner) -> bool:
        """Remove the lock if it is *owner*'s; tell whether it is certainly not there any more."""
        try:
            insist(lambda: self._release(owner))
        except KubeError as error:
            log.warning("node lock not released", pod="/".join(owner), reason=str(error))
            self.doubt()
            return False
        return True

    def doubt(self) -> None:
        """Have `tidy` look whether a lock was left behind."""
        with self._guard:
            self._doubt_until_s = self._clock() + TIMEOUT.total_seconds()

    def tidy(self) -> None:
        """Look once, if there is a doubt: remove a lock whose pod will get nothing any more."""
        with self._guard:
            until_s = self._doubt_until_s
        if until_s is None:
            return
        try:
            is_settled = self._settle()
        except KubeError as error:
            log.debug("node lock not looked at", reason=str(error))
            is_settled = False
        with self._guard:
            if self._doubt_until_s == until_s and (is_settled or self._clock() > until_s):
                self._doubt_until_s = None

    def _settle(self) -> bool:
        """Tell whether no lock is left that could have been forgotten."""
        owner = owner_of(self._lock_of(self._read()))
        if owner is None:
            return True
        try:
            pod: JsonObject = json.loads(self._client.get(pods(*owner)))
        except NotFoundError:
            pass
        except ValueError:
            return True  # No pod can have such a name.
        else:
            if not is_over(pod, node=self._node):
                return False
        self._release(owner)
        log.info("node lock left behind released", pod="/".join(owner))
        return True

    def _release(self, owner: Owner) -> None:
        node = self._read()
        if not may_release(self._lock_of(node), owner):
            return
        metadata = {
            "resourceVersion": node["metadata"]["resourceVersion"],
            "annotations": {str(Lock.SHARED): None},
        }
        self._client.patch(nodes(self._node), {"metadata": metadata}, content_type=MERGE_PATCH)

    def _read(self) -> JsonObject:
        found: JsonObject = json.loads(self._client.get(nodes(self._node)))
        return found

    @staticmethod
    def _lock_of(node: JsonObject) -> str | None:
        annotations: Mapping[str, str] = node["metadata"].get("annotations") or {}
        return annotations.get(Lock.SHARED)
