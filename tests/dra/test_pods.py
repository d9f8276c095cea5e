"""Who uses a claim, and what is said when limits cannot hold."""

from collections.abc import Iterable
from typing import Any

import pytest

from dra.pods import PodUse, PodWatch, many_claims, many_users, read_pod
from dra.record import PreparedClaim
from gpu.refusal import Refusal, RefusedError
from kube.events import Regarding
from tests.dra.builders import a_gpu, a_limited_record, a_record, a_share, an_allocation


def a_container(name: str, *entries: str, **fields: Any) -> dict[str, Any]:
    """Return a container that uses *entries* of its pod's `resourceClaims`."""
    return {
        "name": name,
        "resources": {"claims": [{"name": entry} for entry in entries]},
        **fields,
    }


def a_pod(
    name: str = "pod",
    *,
    containers: Iterable[dict[str, Any]] = (),
    init: Iterable[dict[str, Any]] = (),
    **status: Any,
) -> PodUse:
    """Return a pod whose entries `a`, `b` name claims `claim-1`, `claim-2`, and `made` is made."""
    return read_pod(
        {
            "metadata": {"name": name, "namespace": "team-a", "uid": f"{name}-uid"},
            "spec": {
                "containers": list(containers),
                "initContainers": list(init),
                "resourceClaims": [
                    {"name": "a", "resourceClaimName": "claim-1"},
                    {"name": "b", "resourceClaimName": "claim-2"},
                    {"name": "made", "resourceClaimTemplateName": "template"},
                ],
            },
            "status": {"phase": "Running", **status},
        }
    )


def users_refused(*pods: PodUse, claim: PreparedClaim | None = None) -> str:
    """Return what is said about the users of claim-1, empty when all is well."""
    return str(many_users(pods, claim or a_limited_record(1)) or "")


def test_a_container_is_known_by_its_claims() -> None:
    """Entries are resolved to names of claims; containers without any are left out."""
    pod = a_pod(containers=[a_container("main", "a", "b"), {"name": "log"}])
    ((use),) = pod.containers
    assert (use.name, use.claims) == ("main", frozenset({"claim-1", "claim-2"}))


def test_generated_claims_are_found_by_status() -> None:
    """Until the claim is made the entry refers to nothing."""
    containers = [a_container("main", "made")]
    assert a_pod(containers=containers).containers == ()
    made = [{"name": "made", "resourceClaimName": "pod-made-x7k2p"}]
    (use,) = a_pod(containers=containers, resourceClaimStatuses=made).containers
    assert use.claims == {"pod-made-x7k2p"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_uses_nothing(phase: str) -> None:
    """Its containers never start again."""
    assert a_pod(containers=[a_container("main", "a")], phase=phase).containers == ()


def test_one_container_is_fine() -> None:
    """So is one beside containers without the claim."""
    pod = a_pod(containers=[a_container("main", "a"), {"name": "log"}])
    assert users_refused(pod) == ""


def test_init_containers_before_the_application_are_fine() -> None:
    """They end before the next one starts."""
    init = [a_container("fetch", "a"), a_container("convert", "a")]
    assert users_refused(a_pod(init=init, containers=[a_container("main", "a")])) == ""


def test_an_init_container_before_a_sidecar_is_fine() -> None:
    """The sidecar starts when it has ended."""
    init = [a_container("fetch", "a"), a_container("proxy", "a", restartPolicy="Always")]
    assert users_refused(a_pod(init=init)) == ""


def test_a_sidecar_counts() -> None:
    """It keeps running beside the application and beside later init containers."""
    sidecar = a_container("proxy", "a", restartPolicy="Always")
    said = users_refused(a_pod(init=[sidecar], containers=[a_container("main", "a")]))
    assert said.startswith("ShareUsedByManyContainers: resources.claims: `claim-1 ")
    assert "pod/main, pod/proxy" in said
    assert users_refused(a_pod(init=[sidecar, a_container("fetch", "a")])) != ""


def test_two_containers_of_a_pod_are_too_many() -> None:
    """Each would have the whole limit."""
    pod = a_pod(containers=[a_container("one", "a"), a_container("two", "a")])
    assert "pod/one, pod/two" in users_refused(pod)


def test_two_pods_are_too_many() -> None:
    """Also where one of them is still initialising."""
    one = a_pod("one", containers=[a_container("main", "a")])
    two = a_pod("two", containers=[a_container("main", "a")])
    starting = a_pod("starting", init=[a_container("fetch", "a")])
    assert "one/main, two/main" in users_refused(one, two)
    assert users_refused(one, starting) != ""


def test_pods_of_another_namespace_use_another_claim() -> None:
    """Claims of one name in two namespaces are two."""
    pods = [a_pod(name, containers=[a_container("main", "a")]) for name in ("one", "two")]
    assert users_refused(*pods, claim=a_limited_record(1, namespace="team-b")) == ""


def test_what_is_not_limited_may_be_shared() -> None:
    """Whole GPUs and partitions have no region to mix up."""
    pod = a_pod(containers=[a_container("one", "a"), a_container("two", "a")])
    assert users_refused(pod, claim=a_record(1)) == ""


def test_two_limited_claims_in_one_container_are_too_many() -> None:
    """Their limits would overwrite each other; one of them limited is fine."""
    pod = a_pod(containers=[a_container("main", "a", "b")])
    said = str(many_claims(pod, frozenset({"claim-1", "claim-2"})))
    assert said.startswith(
        "ManySharesInContainer: containers[main].resources.claims: `claim-1, claim-2`"
    )
    assert many_claims(pod, frozenset({"claim-1"})) is None
    apart = a_pod(containers=[a_container("one", "a"), a_container("two", "b")])
    assert many_claims(apart, frozenset({"claim-1", "claim-2"})) is None


class Watched:
    """A `PodWatch` over given pods and claims that notes what it says."""

    def __init__(self, *pods: PodUse, claims: Iterable[PreparedClaim]) -> None:
        self.said: list[tuple[str, str]] = []
        by_uid = {claim.uid: claim for claim in claims}
        self.watch = PodWatch(pods=lambda: pods, claims=lambda: by_uid, say=self._say)

    def _say(self, regarding: Regarding, refusal: Refusal) -> None:
        assert (regarding.kind, regarding.namespace) == ("Pod", "team-a")
        assert regarding.uid == f"{regarding.name}-uid"
        self.said.append((regarding.name, refusal.code))


def test_the_watch_says_it_on_every_pod_that_uses_the_claim() -> None:
    """Not on others."""
    users = [a_pod(name, containers=[a_container("main", "a")]) for name in ("one", "two")]
    other = a_pod("other", containers=[a_container("main", "b")])
    watched = Watched(*users, other, claims=[a_limited_record(1), a_limited_record(2)])
    watched.watch.look()
    code = "ShareUsedByManyContainers"
    assert watched.said == [("one", code), ("two", code)]


def test_the_watch_says_when_claims_meet_in_a_container() -> None:
    """Only for claims that are prepared with limits."""
    pod = a_pod(containers=[a_container("main", "a", "b")])
    both = Watched(pod, claims=[a_limited_record(1), a_limited_record(2)])
    both.watch.look()
    assert both.said == [("pod", "ManySharesInContainer")]
    one = Watched(pod, claims=[a_limited_record(1), a_record(2)])
    one.watch.look()
    assert one.said == []


def test_the_watch_looks_at_one_namespace_when_told() -> None:
    """Other namespaces are left for another time."""
    pod = a_pod(containers=[a_container("main", "a", "b")])
    watched = Watched(pod, claims=[a_limited_record(1), a_limited_record(2)])
    watched.watch.look(namespace="team-b")
    assert watched.said == []
    watched.watch.look(namespace="team-a")
    assert watched.said


def test_the_second_share_of_a_container_is_refused_at_prepare() -> None:
    """The first is prepared already; pods that did not reserve the claim do not matter."""
    pod = a_pod(containers=[a_container("main", "a", "b")])
    watched = Watched(pod, claims=[a_limited_record(1)])
    second = an_allocation(a_share(a_gpu()), name="claim-2", pod_uids=frozenset({"pod-uid"}))
    with pytest.raises(RefusedError, match="ManySharesInContainer"):
        watched.watch.refuse(second)
    watched.watch.refuse(an_allocation(a_share(a_gpu()), name="claim-2"))
    first = an_allocation(a_share(a_gpu()), name="claim-1", pod_uids=frozenset({"pod-uid"}))
    watched.watch.refuse(first)


def test_an_unknown_pod_is_not_waited_for() -> None:
    """The watch may be behind kubelet; it tells afterwards."""
    watched = Watched(claims=[a_limited_record(1)])
    watched.watch.refuse(
        an_allocation(a_share(a_gpu()), name="claim-2", pod_uids=frozenset({"pod-uid"}))
    )
