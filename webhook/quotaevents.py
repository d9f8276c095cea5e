"""Events on ResourceQuotas whose GPU keys do not say what their author meant.

A quota's status changes with each pod, at a hundred times in a second in a busy namespace; only a
change of what its author wrote is looked at.
"""

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from hami.quota import QuotaNames
from kube.events import EventType, Regarding
from kube.objects import JsonObject
from webhook.quotas import read_quota

_KNOWN_MAX: Final = 10_000


class Recorder(Protocol):
    """What is asked of `kube.events.EventRecorder`."""

    def event(  # noqa: D102
        self, regarding: Regarding, type_: EventType, reason: str, message: str
    ) -> None: ...


class QuotaEvents:
    """Tells of each quota once while this replica leads; any thread may call it."""

    def __init__(
        self, recorder: Recorder, names: Sequence[QuotaNames], is_leader: Callable[[], bool]
    ) -> None:
        self._recorder = recorder
        self._names = names
        self._is_leader = is_leader
        self._lock = threading.Lock()
        self._told: dict[str, str] = {}
        self._waiting: dict[str, JsonObject] = {}

    def look(self, quota: JsonObject) -> None:
        """Tell what is odd about *quota* unless it was told of the same content."""
        if not self._is_leader():
            self._keep(quota)
            return
        metadata, spec = _object(quota, "metadata"), _object(quota, "spec")
        uid = str(metadata.get("uid", ""))
        content = json.dumps(spec, sort_keys=True, default=str)
        with self._lock:
            if self._told.get(uid) == content:
                return
            if len(self._told) >= _KNOWN_MAX:
                self._told.clear()
            self._told[uid] = content
        regarding = Regarding(
            api_version="v1",
            kind="ResourceQuota",
            name=str(metadata.get("name", "")),
            uid=uid,
            namespace=str(metadata.get("namespace", "")),
        )
        for remark in read_quota(quota, self._names).remarks:
            message = "; ".join(filter(None, (remark.limit, remark.remedy)))
            self._recorder.event(regarding, "Warning", remark.code, message)

    def begin_to_lead(self) -> None:
        """Tell of what was looked at before this replica led."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self._told.clear()
        for quota in waiting.values():
            self.look(quota)

    def _keep(self, quota: JsonObject) -> None:
        uid = str(_object(quota, "metadata").get("uid", ""))
        with self._lock:
            if len(self._waiting) < _KNOWN_MAX:
                self._waiting[uid] = quota


def _object(item: JsonObject, key: str) -> dict[str, Any]:
    found = item.get(key)
    return found if isinstance(found, dict) else {}
