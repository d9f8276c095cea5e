"""Who still holds GPUs of a node by the mode that it is to leave."""

import json
from collections.abc import Mapping
from typing import Final

from dra.record import PreparedClaim
from dra.settings import AgentSettings
from dra.state import StateStore
from kube import paths
from kube.client import Client
from kube.objects import JsonObject

_ENDED: Final = frozenset({"Succeeded", "Failed"})


def claims_left(settings: AgentSettings, *, boot_id: str) -> tuple[str, ...]:
    """Return the claims that are prepared by the plugin's state; may raise `StateError`."""
    directory = settings.plugin_directory / "state"
    if not directory.is_dir():
        return ()
    store = StateStore(directory, boot_id=boot_id)
    store.open()
    try:
        return named(store.claims())
    finally:
        store.close()


def named(claims: Mapping[str, PreparedClaim]) -> tuple[str, ...]:
    """Return the names of *claims* in order."""
    return tuple(sorted(f"{each.namespace}/{each.name}" for each in claims.values()))


def pods_left(client: Client, node_name: str) -> tuple[str, ...]:
    """Return the node's pods that a device plugin serves; `KubeError` when they cannot be read."""
    # A node that serves claims seldom asks, and all vendors' rules come with it.
    from hami.backends import NvidiaBackend  # noqa: PLC0415

    allocated = NvidiaBackend(count_name="").support_key
    answer = client.get(paths.pods(), {"fieldSelector": f"spec.nodeName={node_name}"})
    pods = json.loads(answer)["items"]
    return tuple(sorted(_name(pod) for pod in pods if _holds_devices(pod, allocated)))


def _holds_devices(pod: JsonObject, allocated: str) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    ended = pod.get("status", {}).get("phase") in _ENDED
    # A list of empty places is one without devices.
    return not ended and bool(str(annotations.get(allocated, "")).strip(";"))


def _name(pod: JsonObject) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
