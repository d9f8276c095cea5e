"""An admission whose cluster is a few values, for decisions without a server.

There are an A10 and an A100 and a MIG device, a claim for a share that another pod has, and nobody
but `system:hami` may patch nodes.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hami.deviceconfig import DeviceConfig, NvidiaConfig
from kube.client import Client
from kube.config import ClientConfig
from kube.errors import NotFoundError
from kube.objects import JsonObject
from webhook.access import Access
from webhook.admission import Admission
from webhook.claimadmission import ClaimAdmission
from webhook.claims import TranslationSettings
from webhook.facts import ClusterFacts
from webhook.podadmission import PodAdmission, PodRules
from webhook.review import Review, UserInfo, Verdict

NAMESPACE: Final = "team-red"
SCHEDULER: Final = "hami-scheduler"
WRITER: Final = "system:hami"
FACTS: Final = ClusterFacts(
    gpus_by_memory_mib={23028: 1, 81920: 1},
    gpus_by_shares={10: 2},
    mig_by_memory_mib={9856: 2},
    models=frozenset({"NVIDIA A10", "NVIDIA A100-SXM4-80GB"}),
)
_SHARE: Final = {
    "name": "gpu",
    "exactly": {
        "deviceClassName": "share.gpuslice.io",
        "capacity": {"requests": {"memory": "1000Mi"}},
    },
}
SITE: Final = DeviceConfig(
    nvidia=NvidiaConfig(gpu_core_policy="force", overwrite_env=True, runtime_class_name="nvidia")
)
"""An administrator who wants something written into every pod."""
CLAIM: Final[JsonObject] = {
    "metadata": {"name": "taken", "namespace": NAMESPACE, "uid": "uid-taken"},
    "spec": {"devices": {"requests": [_SHARE]}},
    "status": {"reservedFor": [{"resource": "pods", "name": "other", "uid": "uid-other"}]},
}


@dataclass(frozen=True, slots=True)
class World:
    """What is known of the cluster."""

    def facts(self) -> ClusterFacts:
        """Return what GPUs there are."""
        return FACTS

    def namespace_labels(self, name: str) -> dict[str, str] | None:
        """Return that nothing is granted."""
        return {} if name == NAMESPACE else None

    def template_spec(self, namespace: str, name: str) -> JsonObject | None:
        """Return the one template."""
        return CLAIM["spec"] if (namespace, name) == (NAMESPACE, "shares") else None

    def claims(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return the one claim."""
        return (CLAIM,) if namespace == NAMESPACE else ()

    def pods(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return that there are none."""
        del namespace
        return ()

    def synced(self) -> bool:
        """Tell that all is known."""
        return True


class _Empty(Client):
    def __init__(self) -> None:
        super().__init__(ClientConfig(host="http://127.0.0.1:1"), user_agent="fuzz")

    def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        del params
        raise NotFoundError(status=404, reason="NotFound", message=path)


async def may_write_nodes(user: UserInfo) -> Access:
    """Tell whether *user* is the only one."""
    return Access(allowed=user.username == WRITER)


class Decider:
    """Decides as the webhook does, with or without claims; belongs to one thread."""

    def __init__(self, *, claims_serve: bool, config: DeviceConfig | None = None) -> None:
        config = config or SITE
        rules = PodRules(
            config=config,
            translation=TranslationSettings(keys=config.nvidia.keys),
            scheduler_name=SCHEDULER,
        )
        pods = PodAdmission(
            rules,
            World(),
            claims_serve=lambda: claims_serve,
            may_write_nodes=may_write_nodes,
            quota=None,
        )
        claims = ClaimAdmission(World(), _Empty(), uncontrolled_namespaces=(), quota=None)
        self._admission = Admission(pods, claims, may_write_nodes=may_write_nodes)
        self._loop = asyncio.new_event_loop()

    def mutate(self, review: Review) -> Verdict:
        """Return what `/webhook` answers."""
        return self._loop.run_until_complete(self._admission.mutate(review))

    def validate(self, review: Review) -> Verdict:
        """Return what `/validate` answers."""
        return self._loop.run_until_complete(self._admission.validate(review))

    def close(self) -> None:
        """End the loop and its threads."""
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
