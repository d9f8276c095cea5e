"""The view of a simulated cluster."""

import queue
import threading

import pytest

from kube.objects import JsonObject
from tests.fakes.api_server import ServerThread, serving
from tests.patience import eventually
from tests.webhook.translating import NODE, a_container, a_gpu, a_pod, a_slice
from tests.webhook.viewing import (
    FAST,
    SLOW,
    a_translated_pod,
    create,
    templates_of,
    viewing,
)
from webhook.sharedpods import NamespaceLookup, check_pod_claims
from webhook.templatecontent import expected_templates
from webhook.view import ClusterView, Kind


def a_plain_pod(name: str, **amounts: int) -> JsonObject:
    """Return a pod of HAMi's path, or one without devices."""
    pod = a_pod(a_container("main", **amounts))
    pod["metadata"]["name"] = name
    return pod


def pod_names(view: ClusterView, namespace: str = "default") -> set[str]:
    """Return the pods that are known."""
    return {pod["metadata"]["name"] for pod in view.pods(namespace)}


def test_it_knows_what_was_there_and_follows_what_comes() -> None:
    """Each kind is found by namespace and is gone when its object is."""
    pod = a_translated_pod()
    templates = expected_templates(pod)
    assert isinstance(templates, dict)
    ((name, spec),) = templates.items()
    with serving() as server:
        create(server, "namespaces", {"metadata": {"name": "team", "labels": {"a": "b"}}})
        with viewing(server) as view:
            assert view.namespace_labels("team") == {"a": "b"} | {
                "kubernetes.io/metadata.name": "team"
            }
            assert view.namespace_labels("nobody") is None
            create(server, "pods", pod)
            create(server, "pods", a_plain_pod("plain"))
            quota = {
                "metadata": {"name": "q", "namespace": "team"},
                "spec": {"hard": {"pods": "1"}},
            }
            create(server, "resourcequotas", quota)
            metadata = {"name": name, "namespace": "default"}
            create(server, "resourceclaimtemplates", {"metadata": metadata, "spec": {"spec": spec}})
            create(server, "resourceclaims", {"metadata": metadata, "spec": spec})
            eventually(lambda: view.claim("default", name))
            eventually(lambda: view.template_spec("default", name))
            eventually(lambda: view.quotas("team"))
            eventually(lambda: pod_names(view) == {"pod"})
            assert expected_templates(view.pods("default")[0]) == templates
            assert not view.claims("team") + view.quotas("default")
            assert not view.templates("team")
            assert len(view.claims("default")) == 1
            assert view.namespaces_in_use() == {"default"}
            server.run(server.server.api.delete("pods", "pod", "default", grace_period_s=0))
            server.run(server.server.api.delete("resourceclaimtemplates", name, "default"))
            eventually(lambda: view.namespaces_in_use() == frozenset())


def test_templates_of_users_are_known_and_none_of_ours() -> None:
    """Two containers on one claim of such a template are noticed; nobody looks after it."""
    exactly = {
        "deviceClassName": "share.gpuslice.io",
        "capacity": {"requests": {"memory": "1Gi"}},
    }
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    template = {
        "metadata": {"name": "training", "namespace": "default"},
        "spec": {"spec": spec},
    }
    containers = [a_container("one"), a_container("two")]
    for each in containers:
        each["resources"] = {"claims": [{"name": "gpu"}]}
    entry = {"name": "gpu", "resourceClaimTemplateName": "training"}
    pod = a_pod(*containers, resourceClaims=[entry])
    with serving() as server, viewing(server) as view:
        lookup = NamespaceLookup(view, "default")
        assert not check_pod_claims(pod, lookup)
        create(server, "resourceclaimtemplates", template)
        eventually(lambda: view.template_spec("default", "training"))
        assert [each.code for each in check_pod_claims(pod, lookup)] == [
            "ShareUsedByManyContainers"
        ]
        assert view.templates("default") == ()
        assert view.namespaces_in_use() == frozenset()
        server.run(server.server.api.delete("resourceclaimtemplates", "training", "default"))
        eventually(lambda: not check_pod_claims(pod, lookup))


def test_facts_follow_the_slices_of_our_driver() -> None:
    """Those of others are not read at all, and the server's release counts."""
    foreign = a_slice(a_gpu(7, 1000), node="z")
    foreign["spec"]["driver"] = "gpu.nvidia.com"
    with serving() as server:
        create(server, "resourceslices", a_slice(a_gpu(1)))
        create(server, "resourceslices", foreign)
        with viewing(server) as view:
            assert view.facts().gpus_by_memory_mib == {24564: 1}
            assert view.facts() is view.facts()
            assert view.facts().counts_are_distinct
            device = a_slice(a_gpu(1))["spec"]["devices"][0]["name"]
            assert view.memory_of(NODE, device) == 24564
            assert view.memory_of("elsewhere", device) is None
            create(server, "resourceslices", a_slice(a_gpu(2, 46068), node="elsewhere"))
            eventually(lambda: view.facts().gpus_by_memory_mib == {24564: 1, 46068: 1})


def test_a_server_of_another_release_is_noticed() -> None:
    """After a new connection the version is asked again."""
    with serving("1.35") as server, viewing(server) as view:
        assert not view.facts().counts_are_distinct
        connected = threading.Event()
        view.on_connected(connected.set)
        server.run(server.server.pause())
        server.call(server.server.set_version, "1.36")
        assert not connected.is_set()
        server.run(server.server.resume())
        eventually(lambda: view.facts().counts_are_distinct)
        eventually(connected.is_set)


def test_changes_are_told_with_kind_and_namespace() -> None:
    """Namespaces are told by their own name."""
    told: queue.Queue[tuple[Kind, str]] = queue.Queue()
    with serving() as server, viewing(server) as view:
        view.on_change(lambda kind, namespace: told.put((kind, namespace)))
        create(server, "namespaces", {"metadata": {"name": "team"}})
        create(server, "pods", a_translated_pod(namespace="team"))
        create(server, "resourceslices", a_slice(a_gpu(1)))
        seen = {told.get(timeout=30) for _ in range(3)}
    assert {(Kind.NAMESPACES, "team"), (Kind.PODS, "team")} <= seen
    assert any(kind is Kind.SLICES for kind, _ in seen)


def without_dra(server: ServerThread) -> None:
    """Have the server know nothing of claims."""
    server.call(server.server.fail_next, 100_000, 404, path_part="resource.k8s.io")


def test_a_cluster_without_claims_is_known_all_the_same() -> None:
    """On HAMi's path nothing waits for kinds that do not exist, and they are asked for rarely."""
    with serving("1.34") as server:
        without_dra(server)
        create(server, "pods", a_plain_pod("asking", gpu=1))
        create(server, "pods", a_plain_pod("plain"))
        with viewing(server, claims_serve=False, pace=SLOW) as view:
            assert view.unsynced() == {Kind.SLICES, Kind.CLAIMS, Kind.TEMPLATES}
            assert pod_names(view) == {"asking"}
            assert view.facts().gpus_by_memory_mib == {}
            assert view.template_spec("default", "x") is None
            create(server, "pods", a_plain_pod("second", gpu=1))
            eventually(lambda: pod_names(view) == {"asking", "second"})
            asked = [each for each in server.server.requests if "resource.k8s.io" in each.path]
            assert len(asked) == 3


def test_on_a_cluster_of_claims_missing_kinds_are_waited_for() -> None:
    """When they are served at last, the view is complete."""
    with serving() as server:
        without_dra(server)
        with viewing(server, wait=False) as view:
            eventually(lambda: view.unsynced() == {Kind.SLICES, Kind.CLAIMS, Kind.TEMPLATES})
            assert not view.synced()
            server.call(server.server.clear_faults)
            eventually(view.synced)


def test_another_way_of_the_cluster_changes_which_pods_are_known() -> None:
    """The known pods stay until the others have been read, and the change is told."""
    told = threading.Event()
    with serving() as server:
        create(server, "pods", a_plain_pod("asking", gpu=1))
        create(server, "pods", a_translated_pod())
        with viewing(server) as view:
            assert pod_names(view) == {"pod"}
            view.on_change(lambda kind, _: told.set() if kind is Kind.PODS else None)
            server.call(server.server.fail_next, 2, 500, path_part="/pods")
            view.follow(claims_serve=False)
            assert not view.synced()
            assert pod_names(view) == {"pod"}
            eventually(view.synced)
            assert pod_names(view) == {"pod", "asking"}
            assert told.is_set()
            view.follow(claims_serve=False)
            assert view.synced()
            view.follow(claims_serve=True)
            eventually(view.synced)
            assert pod_names(view) == {"pod"}


def test_the_way_may_change_while_it_is_changing_or_before_the_start() -> None:
    """The last word counts."""
    with serving() as server:
        create(server, "pods", a_plain_pod("asking", gpu=1))
        client = server.client("webhook")
        view = ClusterView(client, resource_keys={"nvidia.com/gpu"}, pace=FAST)
        view.follow(claims_serve=False)
        view.start()
        eventually(view.synced)
        assert pod_names(view) == {"asking"}
        for claims_serve in (True, False, True, False):
            view.follow(claims_serve=claims_serve)
        eventually(view.synced)
        assert pod_names(view) == {"asking"}
        create(server, "pods", a_plain_pod("second", gpu=1))
        eventually(lambda: pod_names(view) == {"asking", "second"})
        view.stop()
        client.close()


@pytest.mark.parametrize("claims_serve", [True, False])
def test_a_pod_that_lost_what_made_it_ours_is_forgotten(*, claims_serve: bool) -> None:
    """A label that is taken away ends the knowledge of it on both ways."""
    with serving() as server:
        create(server, "pods", a_translated_pod())
        with viewing(server, claims_serve=claims_serve) as view:
            assert len(templates_of(view.pods("default")[0])) == 1
            patch = {"metadata": {"labels": None}}
            server.run(server.server.api.patch("pods", "pod", patch, namespace="default"))
            eventually(lambda: not view.pods("default"))
