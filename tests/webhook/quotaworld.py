"""Replicas that keep quotas over one store of objects, each with a view that lags as it is told."""

import copy
import itertools
from dataclasses import dataclass, field
from typing import Any, Final

import jsonpatch

from gpu.refusal import Refusal
from hami import resources
from hami.deviceconfig import DeviceConfig
from hami.quota import quota_names
from hami.requests import Valid
from kube.errors import ConnectionFailedError
from kube.objects import JsonObject
from webhook.booking import Tariff
from webhook.claims import Translation, translate
from webhook.devicewish import TranslationSettings
from webhook.facts import ClusterFacts
from webhook.leaderforward import LeaderSilentError, marked
from webhook.ownclaims import POD_CLAIM_NAME
from webhook.quotabooks import Books, Timing
from webhook.quotacheck import QuotaCheck
from webhook.quotausage import Prices, pod_reader
from webhook.review import Review, UserInfo
from webhook.templatecontent import expected_templates

NAMESPACE: Final = "team-red"
GPU, MEMORY, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
CONFIG: Final = DeviceConfig()
FACTS: Final = ClusterFacts(
    gpus_by_memory_mib={10000: 1, 40000: 1}, gpus_by_shares={10: 2}, mig_by_memory_mib={5000: 1}
)
API_GIVES_UP_S: Final = 34.0
_numbers = itertools.count(1)


def quota(hard: dict[str, Any], name: str = "gpu-quota") -> JsonObject:
    """Return a ResourceQuota."""
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"hard": hard}}


def pod(limits: dict[str, Any] | None = None, *, name: str = "", base: str = "") -> JsonObject:
    """Return a pod with one container before admission; *base* is its `generateName`."""
    asked = {key: str(value) for key, value in (limits or {}).items()}
    named = {"name": name} if name else {"generateName": base or "job-"}
    return {
        "metadata": {**named, "namespace": NAMESPACE},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": asked}}]},
    }


def claim(name: str = "", *, memory: str = "1000Mi", cores: str = "0", **more: Any) -> JsonObject:
    """Return a claim with a UID, as those who validate see it."""
    number = next(_numbers)
    exactly = {
        "deviceClassName": "share.gpuslice.io",
        "capacity": {"requests": {"memory": memory, "cores": cores}},
        **more,
    }
    return {
        "metadata": {
            "name": name or f"claim-{number}",
            "namespace": NAMESPACE,
            "uid": f"claim-uid-{number}",
        },
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": {},
    }


def claims_for(stored: JsonObject) -> list[JsonObject]:
    """Return the claims that Kubernetes makes for a pod."""
    templates = expected_templates(stored)
    assert not isinstance(templates, Refusal), templates
    made = []
    for entry in stored["spec"].get("resourceClaims") or ():
        found = claim(f"{stored['metadata']['name']}-{entry['name']}-{next(_numbers)}")
        found["spec"] = copy.deepcopy(templates[entry["resourceClaimTemplateName"]])
        owner = {"uid": stored["metadata"]["uid"], "name": stored["metadata"]["name"]}
        found["metadata"] |= {
            "annotations": {POD_CLAIM_NAME: entry["name"]},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "controller": True, **owner}],
        }
        made.append(found)
    return made


def review(item: JsonObject, resource: str = "pods", *, dry_run: bool = False) -> Review:
    """Return the question about creating *item*."""
    return Review(
        api_version="admission.k8s.io/v1",
        uid=f"review-{next(_numbers)}",
        operation="CREATE",
        group="" if resource == "pods" else "resource.k8s.io",
        resource=resource,
        subresource="",
        namespace=NAMESPACE,
        name=item["metadata"].get("name", ""),
        user=UserInfo(username="ann"),
        item=item,
        old_item=None,
        dry_run=dry_run,
    )


@dataclass(slots=True)
class World:
    """The objects that are stored, the time, and who leads."""

    quotas: tuple[JsonObject, ...] = ()
    facts: ClusterFacts = FACTS
    pods: dict[str, JsonObject] = field(default_factory=dict)
    claims: dict[str, JsonObject] = field(default_factory=dict)
    now_s: float = 1000.0
    since_s: float = 0.0
    leader: str | None = "one"
    replicas: "dict[str, Replica]" = field(default_factory=dict)
    reachable: bool = True
    listable: bool = True

    def replica(self, name: str = "one", *, dra: bool = True) -> "Replica":
        """Add a replica."""
        made = self.replicas[name] = Replica(self, name, dra=dra)
        return made

    def lead(self, name: str | None) -> None:
        """Make another one lead."""
        self.leader, self.since_s = name, self.now_s

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


def stored(item: JsonObject, translation: Translation | None = None) -> JsonObject:
    """Return a pod as the API server stores it."""
    made: JsonObject = copy.deepcopy(item)
    if translation is not None:
        made = jsonpatch.apply_patch(made, list(translation.patch))
    number = next(_numbers)
    metadata = made["metadata"]
    if not metadata.get("name"):
        metadata["name"] = f"{metadata['generateName']}{number:05d}"
    metadata.setdefault("uid", f"pod-uid-{number}")
    return made


class Replica:
    """One program: a view, books and what checks; made of the real parts but for the cluster."""

    def __init__(self, world: World, name: str, *, dra: bool) -> None:
        self.world = world
        self.name = name
        self.dra = dra
        self.seen_pods: dict[str, JsonObject] = {}
        self.seen_claims: dict[str, JsonObject] = {}
        names = quota_names(CONFIG.nvidia, CONFIG.vendors)
        self.prices = Prices(
            names=names,
            tariff=Tariff(names=names[0]),
            read_pod=pod_reader(CONFIG),
            expected_templates=expected_templates,
        )
        self.books = Books(
            self,
            self.prices,
            fresh=_Lists(world),
            timing=Timing(),
            clock=lambda: world.now_s,
            pause=world.pause,
        )
        self.check = QuotaCheck(
            view=self,
            prices=self.prices,
            books=self.books,
            leadership=self,
            forward=self._forward,
        )

    def facts(self) -> ClusterFacts:
        """Return the GPUs."""
        return self.world.facts

    def quotas(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return the quotas."""
        return self.world.quotas if namespace == NAMESPACE else ()

    def pods(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return the pods seen so far."""
        return tuple(self.seen_pods.values()) if namespace == NAMESPACE else ()

    def claims(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return the claims seen so far."""
        return tuple(self.seen_claims.values()) if namespace == NAMESPACE else ()

    def leading_since(self) -> float | None:
        """Tell since when it leads."""
        return self.world.since_s if self.world.leader == self.name else None

    def leader_address(self) -> str | None:
        """Return the leader's name."""
        return self.world.leader

    def catch_up(self) -> None:
        """See all that is stored."""
        self.seen_pods, self.seen_claims = dict(self.world.pods), dict(self.world.claims)

    async def ask_pod(
        self, item: JsonObject, asked: Review | None = None, *, dry_run: bool = False
    ) -> tuple[tuple[Refusal, ...], JsonObject]:
        """Admit a pod; return what speaks against it and what would be stored."""
        valid = resources.read(item, CONFIG)
        assert isinstance(valid, Valid), valid
        translation = None
        if self.dra:
            made = translate(item, valid, self.facts(), TranslationSettings())
            assert isinstance(made, Translation), made
            translation = made
        question = asked or review(item, dry_run=dry_run)
        refusals = await self.check.check_pod(question, valid, translation)
        return refusals, stored(item, translation)

    async def ask_claim(self, item: JsonObject, *, dry_run: bool = False) -> tuple[Refusal, ...]:
        """Admit a claim."""
        return await self.check.check_claim(review(item, "resourceclaims", dry_run=dry_run))

    async def create_pod(self, item: JsonObject) -> tuple[Refusal, ...]:
        """Admit and store a pod, which no view shows yet."""
        refusals, made = await self.ask_pod(item)
        if not refusals:
            self.world.pods[made["metadata"]["uid"]] = made
        return refusals

    async def create_claim(self, item: JsonObject) -> tuple[Refusal, ...]:
        """Admit and store a claim, which no view shows yet."""
        refusals = await self.ask_claim(item)
        if not refusals:
            self.world.claims[item["metadata"]["uid"]] = item
        return refusals

    async def _forward(self, asked: Review, _path: str, address: str) -> tuple[Refusal, ...]:
        if not self.world.reachable or address not in self.world.replicas:
            message = "no route"
            raise LeaderSilentError(message)
        other = self.world.replicas[address]
        question = marked(asked, self.name)
        if asked.resource == "resourceclaims":
            return await other.check.check_claim(question)
        assert asked.item is not None
        if asked.item["metadata"].get("uid"):
            return await other.check.check_stored_pod(question)
        return (await other.ask_pod(asked.item, question))[0]


class _Lists:
    def __init__(self, world: World) -> None:
        self._world = world

    async def pods(self, _namespace: str) -> tuple[JsonObject, ...]:
        return self._listed(self._world.pods)

    async def claims(self, _namespace: str) -> tuple[JsonObject, ...]:
        return self._listed(self._world.claims)

    def _listed(self, items: dict[str, JsonObject]) -> tuple[JsonObject, ...]:
        if not self._world.listable:
            message = "no route"
            raise ConnectionFailedError(message)
        return tuple(items.values())
