"""Two replicas with real views, election, TLS and forwarding over one API server."""

import asyncio
import json
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import jsonpatch

from hami import resources
from hami.deviceconfig import DeviceConfig
from hami.quota import quota_names
from hami.requests import Valid
from kube.election import Elector, Terms
from kube.lease import identity_of
from kube.objects import JsonObject
from tests.fakes.api_server import ServerThread, serving
from tests.patience import eventually
from tests.webhook.quotaworld import (
    GPU,
    MEMORY,
    NAMESPACE,
    claim,
    claims_for,
    pod,
    quota,
    review,
)
from tests.webhook.serving import HOST, Served, served
from tests.webhook.viewing import create, viewing
from webhook.booking import Tariff
from webhook.claims import Translation, translate
from webhook.devicewish import TranslationSettings
from webhook.leaderforward import LeaderForward, body_of
from webhook.quotabooks import Books
from webhook.quotacheck import QuotaCheck
from webhook.quotafresh import ApiLists
from webhook.quotausage import Prices, pod_reader
from webhook.quotaverdict import PASSING
from webhook.review import ALLOWED, Review, Verdict, denied
from webhook.server import MUTATE_PATH, VALIDATE_PATH, Limits
from webhook.templatecontent import expected_templates
from webhook.view import ClusterView

CONFIG = DeviceConfig()
PATIENT = Limits(time_budget_s=25)
QUICK = Terms(lease_s=3, renew_deadline_s=2.0, retry_s=0.1)


class Decision:
    """The two handlers of a replica, for as much as quota needs."""

    def __init__(self) -> None:
        self.check: QuotaCheck | None = None
        self.view: ClusterView | None = None

    async def mutate(self, asked: Review) -> Verdict:
        """Translate a pod and ask for room."""
        assert self.check is not None
        assert self.view is not None
        assert asked.item is not None
        valid = resources.read(asked.item, CONFIG)
        assert isinstance(valid, Valid)
        made = translate(asked.item, valid, self.view.facts(), TranslationSettings())
        assert isinstance(made, Translation)
        refusals = await self.check.check_pod(asked, valid, made)
        if refusals:
            return denied("; ".join(map(str, refusals)))
        return Verdict(allowed=True, patch=made.patch)

    async def validate(self, asked: Review) -> Verdict:
        """Ask for the room of a claim."""
        assert self.check is not None
        refusals = await self.check.check_claim(asked)
        return denied("; ".join(map(str, refusals))) if refusals else ALLOWED


@dataclass(slots=True)
class Running:
    """A replica that serves and competes."""

    server: Served
    view: ClusterView
    elector: Elector


@contextmanager
def replica(api: ServerThread, name: str, trust: list[ssl.SSLContext]) -> Iterator[Running]:
    """Run a replica; it has led for long when it begins to lead."""
    decision = Decision()
    names = quota_names(CONFIG.nvidia, CONFIG.vendors)
    with ExitStack() as stack:
        server = stack.enter_context(served(decision.mutate, decision.validate, PATIENT))
        view = stack.enter_context(viewing(api))
        client = api.client(name)
        stack.callback(client.close)
        elector = Elector(
            client,
            namespace="default",
            name="quota",
            identity=identity_of(name, f"{HOST}:{server.port}"),
            terms=QUICK,
        )
        forward = LeaderForward(identity=name, server_name=HOST, tls=lambda: trust[0], timeout_s=20)
        stack.callback(forward.close)
        prices = Prices(
            names=names,
            tariff=Tariff(names=names[0], memory_of=view.memory_of),
            read_pod=pod_reader(CONFIG),
            expected_templates=expected_templates,
        )
        books = Books(view, prices, fresh=ApiLists(client), clock=lambda: time.monotonic() + 1000)
        decision.check = QuotaCheck(
            view=view, prices=prices, books=books, leadership=elector, forward=forward
        )
        decision.view = view
        elector.start()
        stack.callback(elector.stop)
        yield Running(server, view, elector)


class Users:
    """Sends what the API server would, to the replicas in turn, and stores what passes."""

    def __init__(self, api: ServerThread, replicas: list[Running]) -> None:
        self._api = api
        self._replicas = replicas

    def pod(self, number: int, item: JsonObject) -> str:
        """Create a pod through one replica; return why not."""
        asked = review(item)
        answer = self._replicas[number % 2].server.post(MUTATE_PATH, body_of(asked))
        if not answer.response["allowed"]:
            return str(answer.response["status"]["message"])
        made = jsonpatch.apply_patch(item, answer.patch)
        create(self._api, "pods", made)
        return ""

    def claim(self, number: int, item: JsonObject) -> str:
        """Create a claim through one replica, as one that has its UID; return why not."""
        metadata = {key: value for key, value in item["metadata"].items() if key != "uid"}
        bare = {**item, "metadata": metadata}
        asked = review(bare, "resourceclaims")
        answer = self._replicas[number % 2].server.post(VALIDATE_PATH, body_of(asked))
        if not answer.response["allowed"]:
            return str(answer.response["status"]["message"])
        create(self._api, "resourceclaims", bare)
        return ""


def listed(api: ServerThread, plural: str) -> list[JsonObject]:
    """Return what is stored."""
    items, _ = api.run(api.server.api.list(plural, NAMESPACE))
    return items


def all_at_once(ask: Any, items: list[JsonObject]) -> list[str]:
    """Return each answer."""
    with ThreadPoolExecutor(25) as pool:
        return list(pool.map(ask, range(len(items)), items))


def test_fifty_pods_through_two_replicas_book_ten() -> None:
    """Of fifty pods at once ten are stored, and of thirty claims the ten of these pods."""
    with serving() as api, ExitStack() as stack:
        create(api, "namespaces", {"metadata": {"name": NAMESPACE}})
        created = {**quota({"limits.nvidia.com/gpumem": "1000"}), "apiVersion": "v1"}
        del created["metadata"]["uid"]
        create(api, "resourcequotas", {**created, "kind": "ResourceQuota"})
        trust: list[ssl.SSLContext] = []
        one = stack.enter_context(replica(api, "one", trust))
        trust.append(one.server.client_context())
        eventually(one.elector.is_leader)
        two = stack.enter_context(replica(api, "two", trust))
        eventually(two.elector.leader_address)
        eventually(lambda: one.view.quotas(NAMESPACE) and two.view.quotas(NAMESPACE))
        users = Users(api, [one, two])

        wanted = [pod({GPU: 1, MEMORY: 100}, base=f"job-{n % 3}-") for n in range(50)]
        answers = all_at_once(users.pod, wanted)
        pods = listed(api, "pods")
        refused = [each for each in answers if each]
        assert len(pods) == 10
        assert len(refused) == 40
        assert {each.partition(":")[0] for each in refused} == {"QuotaExceeded"}

        made = [claims_for(each)[0] for each in pods]
        strangers = [claim(memory="1Mi") for _ in range(20)]
        waiting = made + strangers
        stored: set[str] = set()
        for _ in range(50):
            answers = all_at_once(users.claim, waiting)
            codes = {each.partition(":")[0] for each in answers if each}
            assert codes <= {"QuotaExceeded"} | PASSING
            stored |= {
                each["metadata"]["name"]
                for each, why in zip(waiting, answers, strict=True)
                if not why
            }
            assert len(listed(api, "resourceclaims")) == len(stored) <= 10
            if len(stored) == 10:
                break
            waiting = [each for each in waiting if each["metadata"]["name"] not in stored]
        assert stored == {each["metadata"]["name"] for each in made}


def test_fresh_lists_show_what_is_stored() -> None:
    """Pods and claims of one namespace come whole."""
    with serving() as api:
        create(api, "namespaces", {"metadata": {"name": NAMESPACE}})
        create(api, "pods", pod(name="a") | {"apiVersion": "v1", "kind": "Pod"})
        create(api, "resourceclaims", json.loads(json.dumps(claim("c"))))
        lists = ApiLists(api.client())
        pods = asyncio.run(lists.pods(NAMESPACE))
        claims = asyncio.run(lists.claims(NAMESPACE))
        assert [each["metadata"]["name"] for each in (*pods, *claims)] == ["a", "c"]
        assert asyncio.run(lists.pods("default")) == ()
        old = ApiLists(api.client(), dra_version="v9")
        assert asyncio.run(old.claims(NAMESPACE)) == ()
