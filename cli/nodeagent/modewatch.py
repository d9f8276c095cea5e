"""Watches whether a node is to be served otherwise, under an agent that runs.

An administrator changes the Node's label, or a control plane is updated and keeps shares from then
on. The agent ends when nothing of the present mode is in use, and is started again in the other
one; until then it stays what it is and says on the Node why.
"""

import os
import signal
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from cli.nodeagent.mode import LABEL, Mode, ModeError, by_server, decide, label_of, still_used
from cli.nodeagent.modefile import ModeFile
from cli.nodeagent.settings import NodeAgentSettings
from cli.nodeagent.sharing import SharesKept
from kube.errors import KubeError
from kube.events import EventRecorder, Regarding
from kube.objects import JsonObject

log = structlog.get_logger(__name__)

REASON: Final = "NodeModeNotChanged"


class ModeWatch:
    """Ends the process when its node is to be served otherwise and nothing is in use any more."""

    def __init__(  # noqa: PLR0913 - whom to ask, and whom to tell
        self,
        settings: NodeAgentSettings,
        mode: Mode,
        *,
        node: Callable[[], JsonObject | None],
        events: EventRecorder,
        file: ModeFile,
        users: Callable[[], Sequence[str]],
        shares: SharesKept,
    ) -> None:
        """Prepare; *node* is the Node as last seen, *users* names who holds GPUs by *mode*.

        *shares* is what the API server says of itself.
        """
        self._settings = settings
        self._mode = mode
        self._events = events
        self._file = file
        self._users = users
        self._shares = shares
        self._node = node
        self._told = ""
        self.is_leaving = False
        """Whether the process ends because its node is to be served otherwise."""

    def look(self) -> None:
        """End the process, or say why it goes on; nothing while the mode is what it should be."""
        node = self._node()
        if node is None:
            return
        try:
            mode, why = self._wanted(node)
            users = () if mode is self._mode else self._users()
        except (ModeError, KubeError) as error:
            self._tell(node, str(error))
            return
        if mode is self._mode:
            self._told = ""
            return
        if users:
            self._tell(node, f"{still_used(self._mode, users)}; {why}")
            return
        log.info("node mode changed", before=str(self._mode), reason=why)
        self._file.forget()
        self.is_leaving = True
        # Its own end is that of every program here; whoever started it starts it again.
        os.kill(os.getpid(), signal.SIGTERM)

    def _wanted(self, node: JsonObject) -> tuple[Mode, str]:
        """Return how *node* is to be served, and who says so; as it is if nobody does."""
        mode = decide(self._settings.mode, label_of(node))
        if mode is not None:
            return mode, f"the label {LABEL} says {mode}"
        kept = self._shares.look(node)
        if kept is None:
            return self._mode, ""
        why = "the API server keeps shares" if kept else "the API server does not keep shares"
        return by_server(keeps_shares=kept), why

    def _tell(self, node: JsonObject, reason: str) -> None:
        if reason == self._told:
            return
        self._told = reason
        log.warning("node mode kept", mode=str(self._mode), reason=reason)
        about = Regarding(
            api_version="v1",
            kind="Node",
            name=self._settings.node_name,
            uid=str(node["metadata"].get("uid", "")),
        )
        self._events.event(about, "Warning", REASON, f"stays {self._mode}: {reason}")
