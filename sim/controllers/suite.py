"""All controllers together, as kube-controller-manager runs them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sim.apiserver import users
from sim.controllers import garbage, namespaces, podgc, resourceclaims

if TYPE_CHECKING:
    from sim.apiserver.api import Api


_CONTROLLERS = (
    (resourceclaims, users.CLAIM_CONTROLLER),
    (garbage, users.GARBAGE_COLLECTOR),
    (namespaces, users.NAMESPACE_CONTROLLER),
    (podgc, users.POD_COLLECTOR),
)


async def run(api: Api) -> None:
    """Run all controllers until cancelled."""
    async with asyncio.TaskGroup() as group:
        for controller, user in _CONTROLLERS:
            group.create_task(controller.run(api.as_user(user)), name=controller.__name__)
