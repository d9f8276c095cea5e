"""Finds out at a start how the node is served.

A start must not wait for an API server, which may come up after its nodes: a node is served as it
was the last time, and nobody is asked. Only a change waits, because pods of the other mode may run.
The Node's label says what is to be; for a Node without it, what the API server can do
(`cli.nodeagent.sharing`, which names the right that this takes).
"""

import json
import threading
from collections.abc import Sequence
from typing import Final

import structlog

from cli.nodeagent.mode import AUTO, Mode, ModeError, by_server, decide, label_of, still_used
from cli.nodeagent.modefile import ModeFile
from cli.nodeagent.settings import NodeAgentSettings
from cli.nodeagent.sharing import keeps_shares
from cli.nodeagent.users import claims_left, pods_left
from kube import paths
from kube.client import Client
from kube.errors import KubeError
from kube.objects import JsonObject

log = structlog.get_logger(__name__)

RETRY_S: Final = 5.0


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
        mode = last if last is not None and wanted in {AUTO, last} else self._ask()
        if mode is Mode.DEVICE_PLUGIN:
            self._check(Mode.DRA, claims_left(self._settings, boot_id=self._boot_id))
        elif mode is not last:
            self._check(Mode.DEVICE_PLUGIN, pods_left(self._client, self._settings.node_name))
        return mode

    def _ask(self) -> Mode:
        node, wanted = self._node(), self._settings.mode
        mode = decide(wanted, label_of(node))
        if mode is not None:
            return mode
        if node is None:
            message = f"there is no Node {self._settings.node_name}, which says how to serve it"
            raise ModeError(message)
        return by_server(keeps_shares=keeps_shares(self._client, node))

    def _check(self, left: Mode, users: Sequence[str]) -> None:
        if users:
            raise still_used(left, users)

    def _node(self) -> JsonObject | None:
        name = self._settings.node_name
        answer = self._client.get(paths.nodes(), {"fieldSelector": f"metadata.name={name}"})
        items = json.loads(answer)["items"]
        return dict(items[0]) if items else None
