"""Which claims are released although nobody asked for it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from dra.pods import ContainerUse, PodUse
from dra.record import PreparedClaim
from dra.sweep import Sweep
from gpu.refusal import Refusal, RefusedError
from tests.dra.builders import NODE, a_claim, a_gpu, a_record, a_result
from tests.fakes.claim_server import ClaimServer


@dataclass(slots=True)
class Swept:
    """A sweep over claims 1 and 2, of which the server knows what a test puts there."""

    server: ClaimServer
    grace_s: float = 0.0
    pods: list[PodUse] | None = field(default_factory=list)
    prepared: dict[str, PreparedClaim] = field(default_factory=dict)
    failing: bool = False
    sweep: Sweep = field(init=False)

    def __post_init__(self) -> None:
        self.prepared = {claim.uid: claim for claim in (a_record(1), a_record(2))}
        self.sweep = Sweep(
            client=self.server.client,
            claims=lambda: dict(self.prepared),
            pods=lambda: self.pods,
            release=self._release,
            pool=NODE,
            grace_s=self.grace_s,
        )

    def _release(self, claim: PreparedClaim) -> None:
        if self.failing:
            raise RefusedError(Refusal(code="SpecNotWritable", field="claim", value=claim.uid))
        del self.prepared[claim.uid]

    def left(self) -> set[str]:
        """Sweep once and return the names of the claims that are still prepared."""
        self.sweep.run()
        return {claim.name for claim in self.prepared.values()}


@pytest.fixture
def server() -> Iterator[ClaimServer]:
    """Run an API server that knows both claims."""
    with ClaimServer(known(1), known(2)) as server:
        yield server


def known(number: int, *results: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return claim *number* as the server knows it."""
    record = a_record(number)
    names = {"name": record.name, "uid": record.uid, "namespace": record.namespace}
    return a_claim(*(results or (a_result(a_gpu()),)), **names | metadata)


def a_pod(claim: str, *, uid: str = "pod-uid", namespace: str = "team-a") -> PodUse:
    """Return a pod with a container that uses *claim*."""
    container = ContainerUse(name="main", claims=frozenset({claim}), keeps_running=True)
    return PodUse(uid=uid, namespace=namespace, name="pod", containers=(container,))


def test_claims_that_are_there_stay(server: ClaimServer) -> None:
    """They are allocated on this node under their UID."""
    assert Swept(server).left() == {"claim-1", "claim-2"}


def test_a_deleted_claim_is_released(server: ClaimServer) -> None:
    """The other is left alone."""
    del server.claims["team-a/claim-1"]
    assert Swept(server).left() == {"claim-2"}


def test_a_replaced_claim_is_released(server: ClaimServer) -> None:
    """Another claim has the name now."""
    server.put(known(1, uid="another-uid"))
    assert Swept(server).left() == {"claim-2"}


@pytest.mark.parametrize(
    "changes", [{"driver": "other.example.com"}, {"pool": "node-2"}, None], ids=str
)
def test_a_claim_without_devices_of_this_node_is_released(
    server: ClaimServer, changes: dict[str, str] | None
) -> None:
    """It was deallocated, or allocated anew elsewhere."""
    claim = known(1, a_result(a_gpu(), **(changes or {})))
    if changes is None:
        claim["status"] = {}
    server.put(claim)
    assert Swept(server).left() == {"claim-2"}


def test_a_claim_has_to_be_gone_for_a_while(server: ClaimServer) -> None:
    """Kubelet's own loop comes first; a claim that was only briefly away begins anew."""
    swept = Swept(server, grace_s=1000.0)
    del server.claims["team-a/claim-1"]
    assert swept.left() == {"claim-1", "claim-2"}
    (since,) = swept.sweep._gone_since.values()
    assert swept.left() == {"claim-1", "claim-2"}
    assert list(swept.sweep._gone_since.values()) == [since]
    swept.sweep._gone_since[a_record(1).uid] = since - 1000.0
    assert swept.left() == {"claim-2"}
    assert swept.sweep._gone_since == {}


def test_a_claim_that_came_back_begins_anew(server: ClaimServer) -> None:
    """So does one that kubelet released meanwhile."""
    swept = Swept(server, grace_s=1000.0)
    claim = server.claims.pop("team-a/claim-1")
    swept.left()
    server.claims["team-a/claim-1"] = claim
    swept.left()
    assert swept.sweep._gone_since == {}
    del server.claims["team-a/claim-2"]
    swept.left()
    del swept.prepared[a_record(2).uid]
    swept.left()
    assert swept.sweep._gone_since == {}


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_server_in_trouble_decides_nothing(server: ClaimServer, status: int) -> None:
    """Only a clear no is one."""
    server.answer_status = status
    assert Swept(server).left() == {"claim-1", "claim-2"}


def test_an_unreachable_server_decides_nothing() -> None:
    """Its silence says nothing about claims."""
    with ClaimServer() as server:
        swept = Swept(server)
    assert swept.left() == {"claim-1", "claim-2"}


@pytest.mark.parametrize("content", [b"", b"{}", b"[]"])
def test_an_unreadable_answer_decides_nothing(server: ClaimServer, content: bytes) -> None:
    """A proxy may answer instead of the server."""
    server.claims["team-a/claim-1"] = content
    assert Swept(server).left() == {"claim-1", "claim-2"}


def test_a_pod_that_refers_to_the_claim_keeps_it(server: ClaimServer) -> None:
    """Its containers may run; pods of other claims and namespaces do not count."""
    server.claims.clear()
    pods = [a_pod("claim-1"), a_pod("claim-2", namespace="team-b"), a_pod("claim-3")]
    swept = Swept(server, pods=pods)
    assert swept.left() == {"claim-1"}
    swept.pods = []
    assert swept.left() == set()


def test_unknown_pods_keep_all_claims(server: ClaimServer) -> None:
    """Before the pods of the node were listed, any of them may refer to the claim."""
    server.claims.clear()
    swept = Swept(server, pods=None)
    assert swept.left() == {"claim-1", "claim-2"}
    swept.pods = []
    assert swept.left() == set()


def test_a_pod_of_the_claim_that_has_the_name_now_does_not_count(server: ClaimServer) -> None:
    """Else the old claim would hold its share for as long as the new one's pod waits for it."""
    claim = known(1, uid="another-uid")
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "new", "uid": "new-uid"}]
    server.put(claim)
    old, new = a_pod("claim-1", uid="old-uid"), a_pod("claim-1", uid="new-uid")
    assert Swept(server, pods=[old, new]).left() == {"claim-1", "claim-2"}
    assert Swept(server, pods=[new]).left() == {"claim-2"}


def test_a_refused_release_is_tried_again(server: ClaimServer) -> None:
    """It does not keep the other claims from being released."""
    server.claims.clear()
    swept = Swept(server, failing=True)
    assert swept.left() == {"claim-1", "claim-2"}
    swept.failing = False
    assert swept.left() == set()


def test_claims_in_use_are_not_asked_about(server: ClaimServer) -> None:
    """While the pod that a claim was prepared for uses it, the API server is left in peace."""
    swept = Swept(server, pods=[a_pod("claim-1"), a_pod("claim-2", uid="stranger")])
    for uid, claim in swept.prepared.items():
        swept.prepared[uid] = replace(claim, pod_uids=("pod-uid",))
    assert swept.left() == {"claim-1", "claim-2"}
    assert server.request_count == 1
