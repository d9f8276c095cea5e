"""Kubelet's calls in both versions, over a real socket."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dra.metrics import Metrics
from gpu import names
from protos import dra_v1_pb2, dra_v1_pb2_grpc, dra_v1beta1_pb2, dra_v1beta1_pb2_grpc
from tests.dra.builders import NODE, UID, a_claim, a_gpu, a_result
from tests.dra.nodes import UID_2, Node, traces_of
from tests.dra.sockets import channel_to, serving
from tests.fakes.claim_server import ClaimServer

if TYPE_CHECKING:
    from dra.record import PreparedClaim

SHARE_ID = "5a5a0000-0000-4000-8000-000000000001"
VERSIONS = [(dra_v1_pb2, dra_v1_pb2_grpc), (dra_v1beta1_pb2, dra_v1beta1_pb2_grpc)]


@pytest.fixture
def server() -> Iterator[ClaimServer]:
    """Run an API server with one claim of one share."""
    with ClaimServer(a_claim(a_result(a_gpu(0), "3000Mi", request="gpu/large"))) as server:
        yield server


class Kubelet:
    """Calls one version of the plugin."""

    def __init__(self, messages: Any, stub: Any) -> None:
        self._messages = messages
        self._stub = stub

    def prepare(self, *claims: tuple[str, str]) -> Any:
        """Prepare *claims*, given as name and UID; return the answers by UID."""
        request = self._messages.NodePrepareResourcesRequest(claims=self._claims(claims))
        return self._stub.NodePrepareResources(request, timeout=20).claims

    def unprepare(self, *claims: tuple[str, str]) -> Any:
        """Unprepare *claims*; return the answers by UID."""
        request = self._messages.NodeUnprepareResourcesRequest(claims=self._claims(claims))
        return self._stub.NodeUnprepareResources(request, timeout=20).claims

    def _claims(self, claims: tuple[tuple[str, str], ...]) -> list[Any]:
        return [
            self._messages.Claim(namespace="team-a", name=name, uid=uid) for name, uid in claims
        ]


@pytest.fixture(params=VERSIONS, ids=["v1", "v1beta1"])
def kubelet(tmp_path: Path, node: Node, request: pytest.FixtureRequest) -> Iterator[Kubelet]:
    """Connect in one version."""
    messages, services = request.param
    path = tmp_path / "dra.sock"
    with serving(path, node.preparer), channel_to(path) as channel:
        yield Kubelet(messages, services.DRAPluginStub(channel))


def test_a_prepared_device_is_answered_in_full(kubelet: Kubelet, node: Node) -> None:
    """Main request, pool, device and one CDI name that the spec knows."""
    (device,) = kubelet.prepare(("claim", UID))[UID].devices
    name = names.device_name(a_gpu(0).uuid)
    assert list(device.request_names) == ["gpu"]
    assert (device.pool_name, device.device_name) == (NODE, name)
    (cdi_id,) = device.cdi_device_ids
    assert cdi_id == f"k8s.gpuslice.io/claim={UID}-{name}-{SHARE_ID}"
    assert [each["name"] for each in node.spec()["devices"]] == [cdi_id.partition("=")[2]]


def test_only_v1_knows_share_ids(kubelet: Kubelet) -> None:
    """The older message has no field for it."""
    (device,) = kubelet.prepare(("claim", UID))[UID].devices
    assert getattr(device, "share_id", SHARE_ID) == SHARE_ID
    has_field = "share_id" in device.DESCRIPTOR.fields_by_name
    assert has_field == (type(device).__module__ == "protos.dra_v1_pb2")


def test_a_whole_device_has_no_share_id(server: ClaimServer, tmp_path: Path, node: Node) -> None:
    """An empty one would be another answer to kubelet than none."""
    server.put(a_claim(a_result(a_gpu(0), None)))
    path = tmp_path / "dra.sock"
    with serving(path, node.preparer), channel_to(path) as channel:
        kubelet = Kubelet(dra_v1_pb2, dra_v1_pb2_grpc.DRAPluginStub(channel))
        (device,) = kubelet.prepare(("claim", UID))[UID].devices
    assert not device.HasField("share_id")


def test_repeated_answers_are_equal(kubelet: Kubelet) -> None:
    """Byte for byte."""
    first = kubelet.prepare(("claim", UID))[UID].SerializeToString(deterministic=True)
    assert kubelet.prepare(("claim", UID))[UID].SerializeToString(deterministic=True) == first


def test_each_claim_has_an_answer(kubelet: Kubelet, server: ClaimServer) -> None:
    """One claim's refusal does not keep the others from being prepared."""
    server.put(a_claim(a_result(a_gpu(1)), name="second", uid=UID_2))
    answers = kubelet.prepare(("gone", "uid-gone"), ("second", UID_2), ("claim", "uid-old"))
    assert set(answers) == {"uid-gone", UID_2, "uid-old"}
    assert answers["uid-gone"].error.startswith("ClaimNotFound")
    assert answers["uid-old"].error.startswith("ClaimReplaced")
    assert answers[UID_2].error == ""
    assert len(answers[UID_2].devices) == 1
    assert not answers["uid-gone"].devices


def test_unprepare_answers_for_known_and_unknown_claims(kubelet: Kubelet, node: Node) -> None:
    """Both succeed, and nothing is left."""
    kubelet.prepare(("claim", UID))
    answers = kubelet.unprepare(("claim", UID), ("other", UID_2))
    assert {uid: answer.error for uid, answer in answers.items()} == {UID: "", UID_2: ""}
    assert node.traces() == traces_of()


def test_no_claims_have_no_answers(kubelet: Kubelet, node: Node) -> None:
    """The probes ask that, also while the state is held by another call."""
    with node.store.transaction():
        assert not kubelet.prepare()
        assert not kubelet.unprepare()


def test_an_unforeseen_failure_is_an_answer_too(kubelet: Kubelet, node: Node) -> None:
    """Kubelet takes a missing entry as a failure of all claims."""
    node.store.close()
    answers = kubelet.prepare(("claim", UID))
    assert answers[UID].error != ""
    assert not answers[UID].devices


def samples(metrics: Metrics) -> dict[str, float]:
    """Return counted calls by name and outcome."""
    return {
        f"{sample.name} {sample.labels['outcome']}": sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if "outcome" in sample.labels and sample.name.endswith("_total")
    }


def test_calls_are_counted_by_outcome_and_told(tmp_path: Path, node: Node) -> None:
    """Successes, refusals by their code, and each prepared claim once a call."""
    path, metrics = tmp_path / "dra.sock", Metrics()
    told: list[PreparedClaim] = []
    with (
        serving(path, node.preparer, metrics=metrics, prepared=told.append),
        channel_to(path) as channel,
    ):
        kubelet = Kubelet(dra_v1_pb2, dra_v1_pb2_grpc.DRAPluginStub(channel))
        kubelet.prepare(("claim", UID), ("gone", "uid-gone"))
        kubelet.prepare(("claim", UID))
        kubelet.unprepare(("claim", UID))
    assert samples(metrics) == {
        "gpuslice_prepare_total ok": 2.0,
        "gpuslice_prepare_total ClaimNotFound": 1.0,
        "gpuslice_unprepare_total ok": 1.0,
    }
    assert [claim.uid for claim in told] == [UID, UID]
