"""Whether the API server keeps shares, which decides how Nodes without a label are served.

The question is the one by which GPUs are published (`dra.sharing`). It takes the right to create
ResourceSlices, which an agent has anyway (`charts/gpuslice`: `node-agent/rbac.yaml`), and the slice
on trial is one of the own node and driver, as the policy `own-slices` demands. A server without
claims keeps no shares.

Control planes are updated and turned back, so it is asked again whenever a connection is made anew,
and now and then. What was said last holds as long as nothing else is said.
"""

import random
import threading
import time
from typing import Final

import structlog

from cli.nodeagent.mode import LABEL, ModeError
from dra.sharing import NO_ANSWER, SharingProbe, sharing_losses
from kube.backoff import Backoff
from kube.client import Client
from kube.errors import NotServedError
from kube.objects import JsonObject

log = structlog.get_logger(__name__)

_AGAIN_S: Final = 600.0


def keeps_shares(client: Client, node: JsonObject) -> bool:
    """Ask the server, for *node*; `ModeError` when it does not tell."""
    try:
        metadata = node["metadata"]
        probe = SharingProbe(client, node_name=metadata["name"], node_uid=metadata["uid"])
        return not sharing_losses(probe.losses())
    except NotServedError:
        return False
    except NO_ANSWER as error:
        message = (
            f"the Node has no label {LABEL}, and the API server does not say whether it keeps "
            f"shares: {str(error) or repr(error)}"
        )
        raise ModeError(message) from error


class SharesKept:
    """What the server said last; one thread looks."""

    def __init__(self, client: Client, *, least_s: float, again_s: float = _AGAIN_S) -> None:
        """Prepare to ask every *again_s*, and at a new connection *least_s* after the last time."""
        self._client = client
        self._least_s, self._again_s = least_s, again_s
        self._backoff = Backoff(least_s, again_s)
        self._reconnected = threading.Event()
        self._asked_s = self._next_s = -float("inf")
        self._kept: bool | None = None

    def reconnected(self) -> None:
        """Have it asked soon: the server at the other end may be another one; from any thread."""
        self._reconnected.set()

    def look(self, node: JsonObject) -> bool | None:
        """Return what the server says for *node*; `None` as long as it has never said anything."""
        now_s = time.monotonic()
        soon = self._reconnected.is_set() and now_s - self._asked_s >= self._least_s
        if soon or now_s >= self._next_s:
            # Cleared first: a connection made while the answer is under way asks again.
            self._reconnected.clear()
            self._asked_s = now_s
            self._next_s = now_s + self._ask(node)
        return self._kept

    def _ask(self, node: JsonObject) -> float:
        """Ask; return after how many seconds to ask again."""
        try:
            self._kept = keeps_shares(self._client, node)
        except ModeError as error:
            if self._backoff.failures == 0:
                log.warning("server not asked for shares", reason=str(error), kept=self._kept)
            return self._backoff.next_s()
        self._backoff.reset()
        # Agents that a restarted server has brought into step fall out of it again.
        return random.uniform(self._again_s / 2, self._again_s)  # noqa: S311 - no secret
