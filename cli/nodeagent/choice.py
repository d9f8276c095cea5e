"""Finds out at a start how the node is served, and watches whether that is to change.

A start must not wait for an API server, which may come up after its nodes: a node is served as it
was the last time, and nobody is asked. Only a change waits, because pods of the other mode may run.
"""

import json
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from cli.nodeagent.mode import AUTO, LABEL, Mode, ModeError, decide, still_used
from cli.nodeagent.modefile import ModeFile
from cli.nodeagent.settings import NodeAgentSettings
from cli.nodeagent.users import claims_left, pods_left
from kube import paths
from kube.client import Client
from kube.errors import KubeError
from kube.events import EventRecorder, Regarding
from kube.objects import JsonObject

log = structlog.get_logger(__name__)

RETRY_S: Final = 5.0
REASON: Final = "NodeModeNotChanged"


class ModeChoice:
    """Chooses the mode of one start."""

    def __init__(
        self, settings: NodeAgentSettings, *, client: Client, file: ModeFile, boot_id: str
    ) -> None:
        self._settings = settings
        self._client = client
        self._file = file
        self._boot_id = boot_id

    def wait(self, stopping: threading.Event) -> Mode:
        """Return the mode, as soon as the node may be served in it; `ModeError` once stopped."""
        told = ""
        while not stopping.is_set():
            try:
                mode = self._choose()
            except (ModeError, KubeError) as error:
                if str(error) != told:
                    told = str(error)
                    log.error("node mode not chosen", reason=told)
                stopping.wait(RETRY_S)
            else:
                self._file.write(mode)
                log.info("node mode chosen", mode=str(mode))
                return mode
        message = "stopped before the mode of the node was known"
        raise ModeError(message)

    def _choose(self) -> Mode:
        last, wanted = self._file.read(), self._settings.mode
        if last is None and wanted == str(Mode.DRA) and not self._file.exists():
            # Before there was a file there was no other mode.
            return Mode.DRA
        if last is not None and wanted in {AUTO, last}:
            mode = last
        else:
            mode = decide(wanted, label_of(self._node()))
        if mode is Mode.DEVICE_PLUGIN:
            self._check(Mode.DRA, claims_left(self._settings, boot_id=self._boot_id))
        elif mode is not last:
            self._check(Mode.DEVICE_PLUGIN, pods_left(self._client, self._settings.node_name))
        return mode

    def _check(self, left: Mode, users: Sequence[str]) -> None:
        if users:
            raise still_used(left, users)

    def _node(self) -> JsonObject | None:
        name = self._settings.node_name
        answer = self._client.get(paths.nodes(), {"fieldSelector": f"metadata.name={name}"})
        items = json.loads(answer)["items"]
        return dict(items[0]) if items else None


class ModeWatch:
    """Ends the process when its node is to be served otherwise and nothing is in use any more."""

    def __init__(
        self,
        settings: NodeAgentSettings,
        mode: Mode,
        *,
        node: Callable[[], JsonObject | None],
        events: EventRecorder,
        file: ModeFile,
        users: Callable[[], Sequence[str]],
    ) -> None:
        """Prepare; *node* is the Node as last seen, *users* names who holds GPUs by *mode*."""
        self._settings = settings
        self._mode = mode
        self._events = events
        self._file = file
        self._users = users
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
            if decide(self._settings.mode, label_of(node)) is self._mode:
                self._told = ""
                return
            if users := self._users():
                raise still_used(self._mode, users)
        except (ModeError, KubeError) as error:
            self._tell(node, str(error))
            return
        log.info("node mode changed", before=str(self._mode))
        self._file.forget()
        self.is_leaving = True
        # Its own end is that of every program here; whoever started it starts it again.
        os.kill(os.getpid(), signal.SIGTERM)

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


def label_of(node: JsonObject | None) -> str | None:
    """Return the label of *node* that says how it is served."""
    labels: Mapping[str, str] = (node or {}).get("metadata", {}).get("labels") or {}
    return labels.get(LABEL)
