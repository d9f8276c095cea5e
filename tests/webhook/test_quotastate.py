"""A machine that creates, loses and ends pods and claims while views lag and leaders change."""

import asyncio
import copy
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpu.refusal import Refusal
from kube.objects import JsonObject
from tests.webhook.quotaworld import (
    API_GIVES_UP_S,
    GPU,
    MEMORY,
    NAMESPACE,
    World,
    claim,
    claims_for,
    pod,
    quota,
    review,
)
from webhook.ownclaims import POD_CLAIM_NAME

Value = TypeVar("Value")

LIMIT_MIB = 40000
LARGEST_MIB = 40000

sizes = st.sampled_from([1000, 9000, 15000, 25000])
percents = st.sampled_from([10, 25, 50])
which = st.integers(0, 10**6)


@dataclass(slots=True)
class Moving:
    """An object that was admitted and is not yet stored."""

    kind: str
    item: JsonObject
    mib: int
    since_s: float


class QuotaMachine(RuleBasedStateMachine):
    """Two replicas on a namespace with one bound; sums are made here by arithmetic of its own."""

    @initialize(dra=st.booleans())
    def begin(self, *, dra: bool) -> None:
        """Start with one replica leading for long."""
        hard = {"limits.nvidia.com/gpumem": str(LIMIT_MIB)}
        self.world = World(quotas=(quota(hard),))
        self.dra = dra
        self.replicas = [self.world.replica(name, dra=dra) for name in ("one", "two")]
        self.moving: list[Moving] = []
        self.mib: dict[str, int] = {}
        self.number = 0
        self.runner = asyncio.Runner()

    def teardown(self) -> None:
        """Close the loop."""
        if hasattr(self, "runner"):
            self.runner.close()

    def run_now(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run in the one loop of this machine."""
        return self.runner.run(work)

    @rule(through=st.integers(0, 1), mib=sizes, manner=st.sampled_from(["name", "base", "uid"]))
    def admit_pod(self, through: int, mib: int, manner: str) -> None:
        """Ask for a pod of an absolute size."""
        self._admit(through, {GPU: 1, MEMORY: mib}, mib, manner)

    @rule(through=st.integers(0, 1), percent=percents)
    def admit_percentage(self, through: int, percent: int) -> None:
        """Ask for a part of a GPU of either size."""
        asked = {GPU: 1, f"{MEMORY}-percentage": percent}
        self._admit(through, asked, LARGEST_MIB * percent // 100, "base")

    def _admit(self, through: int, limits: dict[str, int], mib: int, manner: str) -> None:
        self.number += 1
        item = pod(
            limits, **({"name": f"p{self.number}"} if manner == "name" else {"base": "job-"})
        )
        replica = self.replicas[through]
        asking = replica.ask_pod(item, dry_run=manner == "uid")
        refusals, made = self.run_now(asking)
        if manner == "uid" and not refusals:
            refusals = self.run_now(replica.check.check_stored_pod(review(made)))
        if not refusals:
            self.moving.append(Moving("pod", made, mib, self.world.now_s))

    @rule(through=st.integers(0, 1), mib=sizes)
    def admit_claim(self, through: int, mib: int) -> None:
        """Ask for a claim that no pod made."""
        self._admit_claim(through, claim(memory=f"{mib}Mi"), mib)

    @precondition(lambda self: self.dra)
    @rule(through=st.integers(0, 1), at=which)
    def generate_claim(self, through: int, at: int) -> None:
        """Make the claim of a pod that has none."""
        waiting = [each for each in self._live_pods() if not self._has_claim(each)]
        if waiting:
            each = waiting[at % len(waiting)]
            (made,) = claims_for(each)
            self._admit_claim(through, made, self.mib[each["metadata"]["uid"]])

    def _admit_claim(self, through: int, made: JsonObject, mib: int) -> None:
        if not self.run_now(self.replicas[through].ask_claim(made)):
            self.moving.append(Moving("claim", made, mib, self.world.now_s))

    @rule(at=which)
    def store(self, at: int) -> None:
        """Store something that was admitted."""
        if self.moving:
            each = self.moving.pop(at % len(self.moving))
            uid = each.item["metadata"]["uid"]
            (self.world.pods if each.kind == "pod" else self.world.claims)[uid] = each.item
            self.mib[uid] = each.mib

    @rule(at=which)
    def lose(self, at: int) -> None:
        """Let a request fail after it was admitted."""
        if self.moving:
            self.moving.pop(at % len(self.moving))

    @rule(through=st.integers(0, 1), pods=st.booleans(), claims=st.booleans())
    def see(self, through: int, *, pods: bool, claims: bool) -> None:
        """Let a view catch up with one kind or both."""
        replica = self.replicas[through]
        if pods:
            replica.seen_pods = dict(self.world.pods)
        if claims:
            replica.seen_claims = dict(self.world.claims)
        replica.books.look()

    @rule(at=which, small=st.booleans())
    def allocate(self, at: int, *, small: bool) -> None:
        """Give a claim its devices: a percentage may become the smaller GPU."""
        items = [each for each in self.world.claims.values() if not each["status"]]
        if not items:
            return
        made = copy.deepcopy(items[at % len(items)])
        uid, (request,) = made["metadata"]["uid"], made["spec"]["devices"]["requests"]
        name = request["name"]
        if options := request.get("firstAvailable"):
            option = min(options, key=_memory) if small else max(options, key=_memory)
            name = f"{name}/{option['name']}"
            self.mib[uid] = _memory(option)
        taken = {"memory": f"{self.mib[uid]}Mi", "cores": "0"}
        result = {"request": name, "driver": "gpuslice.io", "consumedCapacity": taken}
        made["status"] = {"allocation": {"devices": {"results": [result]}}}
        self.world.claims[uid] = made

    @rule(at=which, phase=st.sampled_from(["Succeeded", "Failed"]))
    def end_pod(self, at: int, phase: str) -> None:
        """Let a pod end."""
        if live := self._live_pods():
            each = copy.deepcopy(live[at % len(live)])
            each["status"] = {"phase": phase}
            self.world.pods[each["metadata"]["uid"]] = each

    @rule(at=which)
    def delete_pod(self, at: int) -> None:
        """Delete a pod."""
        if self.world.pods:
            uids = list(self.world.pods)
            del self.world.pods[uids[at % len(uids)]]

    @rule(at=which)
    def delete_claim(self, at: int) -> None:
        """Delete a claim that no live pod holds: Kubernetes protects the others."""
        live = {each["metadata"]["uid"] for each in self._live_pods()}
        free = [uid for uid, each in self.world.claims.items() if _owner(each)[0] not in live]
        if free:
            del self.world.claims[free[at % len(free)]]

    @rule(seconds=st.sampled_from([1.0, 20.0, 40.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass, in which the API server gives up requests."""
        self.world.now_s += seconds
        self._give_up()

    @rule(leader=st.sampled_from(["one", "two", None]))
    def elect(self, leader: str | None) -> None:
        """Change who leads."""
        if leader != self.world.leader:
            self.world.lead(leader)

    @rule(listable=st.booleans(), reachable=st.booleans())
    def cut(self, *, listable: bool, reachable: bool) -> None:
        """Cut off the API server's lists, or the replicas from each other."""
        self.world.listable, self.world.reachable = listable, reachable

    @invariant()
    def nothing_is_booked_beyond_the_limit(self) -> None:
        """Fit what is stored, under way, and promised to pods into the bound."""
        if not hasattr(self, "moving"):
            return
        self._give_up()
        assert self._booked() <= LIMIT_MIB

    @invariant()
    def usage_is_the_sum_of_what_lives(self) -> None:
        """Compare this machine's sum with that of a replica that sees everything."""
        if not hasattr(self, "moving"):
            return
        fresh = World(quotas=self.world.quotas).replica(dra=self.dra)
        fresh.seen_pods, fresh.seen_claims = self.world.pods, self.world.claims
        used = fresh.books.used(NAMESPACE).amounts.get(MEMORY, 0)
        assert used == self._sum(self.world.pods.values(), self.world.claims.values())

    def _give_up(self) -> None:
        oldest_s = self.world.now_s - API_GIVES_UP_S
        self.moving = [each for each in self.moving if each.since_s > oldest_s]

    def _booked(self) -> int:
        sizes = {each.item["metadata"]["uid"]: each.mib for each in self.moving}
        pods = [*self.world.pods.values()]
        pods += [each.item for each in self.moving if each.kind == "pod"]
        claims = [*self.world.claims.values()]
        claims += [each.item for each in self.moving if each.kind == "claim"]
        return self._sum(pods, claims, sizes)

    def _sum(self, pods: Any, claims: Any, sizes: dict[str, int] | None = None) -> int:
        known = self.mib | (sizes or {})
        made = {_owner(each) for each in claims}
        found = sum(known[each["metadata"]["uid"]] for each in claims)
        for each in pods:
            uid = each["metadata"]["uid"]
            over = each.get("status", {}).get("phase") in {"Succeeded", "Failed"}
            entries = each["spec"].get("resourceClaims") or [{"name": ""}]
            if not over and (uid, entries[0]["name"]) not in made:
                found += known[uid]
        return found

    def _live_pods(self) -> list[JsonObject]:
        return [
            each for each in self.world.pods.values() if not each.get("status", {}).get("phase")
        ]

    def _has_claim(self, each: JsonObject) -> bool:
        moving = [it.item for it in self.moving if it.kind == "claim"]
        return any(
            _owner(made)[0] == each["metadata"]["uid"]
            for made in (*self.world.claims.values(), *moving)
        )


def _owner(made: JsonObject) -> tuple[str, str]:
    owners = made["metadata"].get("ownerReferences") or [{"uid": ""}]
    name = (made["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME, "")
    return owners[0]["uid"], name


def _memory(option: JsonObject) -> int:
    text = option["capacity"]["requests"]["memory"]
    number, unit = int(text[:-2]), text[-2:]
    return number * {"Mi": 1, "Gi": 1024}[unit]


TestQuotaMachine = QuotaMachine.TestCase
TestQuotaMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_refusal_has_no_effect_on_others() -> None:
    """A hundred requests that find no room leave the room that there is."""
    one = World(quotas=(quota({"limits.nvidia.com/gpumem": "1000"}),)).replica()

    async def asking() -> tuple[Refusal, ...]:
        for _ in range(100):
            assert await one.create_pod(pod({GPU: 1, MEMORY: 1001}))
        return await one.create_pod(pod({GPU: 1, MEMORY: 1000}))

    assert asyncio.run(asking()) == ()
