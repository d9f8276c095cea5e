"""List and watch without end: how every controller hears of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from kube.objects import ObjectKey, key_of
from sim.apiserver.errors import GoneError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube.objects import JsonObject
    from sim.apiserver.api import Api

log = structlog.get_logger(__name__)


async def follow(
    api: Api,
    resource: str,
    on_seen: Callable[[JsonObject], None],
    on_gone: Callable[[JsonObject], None],
) -> None:
    """Call *on_seen* with every object now and at each change, *on_gone* with deleted ones."""
    known: dict[ObjectKey, JsonObject] = {}
    while True:
        listed, version = await api.list(resource)
        found = {key_of(obj) for obj in listed}
        for key in [key for key in known if key not in found]:
            on_gone(known.pop(key))
        for obj in listed:
            known[key_of(obj)] = obj
            on_seen(obj)
        try:
            async for kind, obj in api.watch(resource, resource_version=version):
                if kind == "DELETED":
                    known.pop(key_of(obj), None)
                    on_gone(obj)
                else:
                    known[key_of(obj)] = obj
                    on_seen(obj)
        except GoneError:
            log.info("watch expired", resource=resource)
