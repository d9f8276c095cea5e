"""Warning events on pods, one for each different reason."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sim.apiserver.errors import StatusError
from sim.apiserver.json_values import timestamp

if TYPE_CHECKING:
    from kube.objects import JsonObject
    from sim.apiserver.api import Api


async def warn(api: Api, pod: JsonObject, reason: str, message: str) -> None:
    """Write an event about *pod*; a repeated one is left as it is."""
    metadata = pod["metadata"]
    digest = hashlib.sha256(f"{metadata['uid']} {reason} {message}".encode()).hexdigest()[:16]
    now = timestamp()
    event: JsonObject = {
        "metadata": {"name": f"{metadata['name']}.{digest}"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": "resource_claim"},
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
    }
    try:
        await api.create("events", event, metadata["namespace"])
    except StatusError as error:
        if error.code != 409:
            raise
