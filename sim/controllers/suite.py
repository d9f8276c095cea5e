"""All controllers together, as kube-controller-manager runs them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sim.controllers import garbage, namespaces, podgc, resourceclaims

if TYPE_CHECKING:
    from sim.apiserver.api import Api


async def run(api: Api) -> None:
    """Run all controllers until cancelled."""
    async with asyncio.TaskGroup() as group:
        for controller in (resourceclaims, garbage, namespaces, podgc):
            group.create_task(controller.run(api), name=controller.__name__)
