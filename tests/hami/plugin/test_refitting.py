"""The extender is asked for other devices, over TLS and with a token."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from extender.routes import refitting
from gpu.refusal import RefusedError
from hami.plugin.refitting import Extender, ExtenderRefitter
from protos import deviceplugin_v1beta1_pb2 as api
from tests.fakes.authority import Authority
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer
from tests.hami.plugin.placed import (
    ALLOCATED,
    NODE,
    TO_ALLOCATE,
    Cluster,
    Parts,
    given,
    parts_of,
    uuid,
)

TWO = f"{uuid(2)}-0"


class Scheduler:
    """An extender that gives the cards that it is told, and writes them on the pod."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.authority = Authority(directory)
        self.token_file = directory / "token"
        self.token_file.write_text("first")
        self.answer = given(2, 3000)
        self.written: str | None = None
        """What the pod gets to say, where that is not the answer."""
        self.asked: list[Request] = []

    @contextmanager
    def serving(self) -> Iterator[ScriptedServer]:
        """Serve."""
        with ScriptedServer(self._answer, tls=self.authority.serving()) as server:
            yield server

    def refitter(self, url: str) -> ExtenderRefitter:
        """Return a client of it."""
        extender = Extender(
            endpoint=url,
            ca_file=Path(self.authority.ca_file),
            token_file=self.token_file,
            timeout_s=0.5,
        )
        return ExtenderRefitter(extender, node=NODE, user_agent="test")

    def _answer(self, request: Request, exchange: Exchange) -> None:
        self.asked.append(request)
        if request.headers.get("Authorization") != f"Bearer {self.token_file.read_text()}":
            exchange.json({"detail": "who are you"}, 401)
        elif not self.answer:
            exchange.json({"succeeded": False, "failureReason": "1/4 CardInsufficientMemory"})
        elif self.answer == "hold":
            exchange.hold()
        elif self.answer == "junk":
            exchange.send(200, b"[]")
        else:
            ask = request.json()
            written = self.written or f"{self.answer};"
            marks = {TO_ALLOCATE: written, ALLOCATED: written}
            self.cluster.annotate("pods", ask["podName"], marks)
            exchange.json({"succeeded": True, "containerDevices": self.answer})


@pytest.fixture
def scheduler(cluster: Cluster, tmp_path: Path) -> Scheduler:
    """Return an extender."""
    return Scheduler(cluster, tmp_path)


@pytest.fixture
def parts(cluster: Cluster, scheduler: Scheduler) -> Iterator[Parts]:
    """Return a plugin that may ask it."""
    with scheduler.serving() as server:
        yield parts_of(cluster.server.client(), refitter=scheduler.refitter(server.url))


def refusal(parts: Parts, *asked: str) -> str:
    """Return with what a call is refused."""
    with pytest.raises(RefusedError) as caught:
        parts.allocator.allocate([asked])
    return str(caught.value)


def test_kubelets_cards_are_asked_for_and_handed_out(
    cluster: Cluster, scheduler: Scheduler, parts: Parts
) -> None:
    """The question names pod, container and kubelet's cards, as the extender reads it."""
    uid = cluster.pod("a", f";{given(0)};", counts=(1,), inits=(0,))
    scheduler.written = f";{given(2)};"
    answer = parts.allocator.allocate([[TWO]])
    assert answer.container_responses[0].envs["DEVICES"] == uuid(2)
    (request,) = scheduler.asked
    assert request.path == "/refit"
    assert request.json() == {
        "podUID": uid,
        "podNamespace": "default",
        "podName": "a",
        "nodeName": NODE,
        "containerIndex": 1,
        "containerName": "app-0",
        "deviceType": "NVIDIA",
        "allowedDeviceUUIDs": [uuid(2)],
    }
    read = refitting._read(request.body)
    assert (read.uid, read.container_name) == (uid, "app-0")
    assert read.allowed == {uuid(2)}
    assert (cluster.left("a"), cluster.phase("a")) == ([[], []], "success")
    assert cluster.locked_by() == ""
    marks = cluster.get("a")["metadata"]["annotations"]
    assert marks[ALLOCATED] == f";{given(2)};"


def test_a_preference_asks_with_all_that_kubelet_has(
    cluster: Cluster, scheduler: Scheduler, parts: Parts
) -> None:
    """Then it takes the ids of the new card, and nobody has to be asked again."""
    cluster.pod("a", f"{given(0)};")
    asked = api.ContainerPreferredAllocationRequest(
        available_deviceIDs=[f"{uuid(1)}-0", TWO, f"{uuid(2)}-1"], allocation_size=1
    )
    assert parts.allocator.prefer([asked]) == [[TWO]]
    assert scheduler.asked[0].json()["allowedDeviceUUIDs"] == [uuid(1), uuid(2)]
    parts.allocator.allocate([[TWO]])
    assert len(scheduler.asked) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "the extender finds no others: 1/4 CardInsufficientMemory"),
        ("hold", "the extender cannot be asked"),
        ("junk", "the extender's answer cannot be read"),
        ("GPU-x,NVIDIA,many,0:", "the extender's answer names no devices"),
        (given(3), "the extender chose others again"),
    ],
)
def test_without_other_devices_the_pod_has_failed(
    cluster: Cluster, scheduler: Scheduler, parts: Parts, answer: str, said: str
) -> None:
    """With the reason; the next pod may be bound."""
    cluster.pod("a", f"{given(0)};")
    scheduler.answer = answer
    assert said in refusal(parts, TWO)
    assert (cluster.phase("a"), cluster.locked_by()) == ("failed", "")
    assert parts.answers.grants == []


def test_an_answer_that_is_not_on_the_pod_is_no_decision(
    cluster: Cluster, scheduler: Scheduler, parts: Parts
) -> None:
    """What counts is what the scheduler will count after a restart."""
    cluster.pod("a", f"{given(0)};")
    scheduler.written = f"{given(0)};"
    assert "does not carry what the extender answered" in refusal(parts, TWO)


def test_token_and_authority_are_read_again(
    cluster: Cluster, scheduler: Scheduler, tmp_path: Path
) -> None:
    """Both are replaced while the plugin runs."""
    with scheduler.serving() as server:
        refitter = scheduler.refitter(f"{server.url}/refit")
        parts = parts_of(cluster.server.client(), refitter=refitter)
        cluster.pod("a", f"{given(0)};")
        parts.allocator.allocate([[TWO]])
    other = tmp_path / "other"
    other.mkdir()
    renewed = Authority(other)
    scheduler.token_file.write_text("second, and longer")
    with ScriptedServer(scheduler._answer, tls=renewed.serving()) as server:
        extender = Extender(
            endpoint=f"{server.url}/refit",
            ca_file=Path(scheduler.authority.ca_file),
            token_file=scheduler.token_file,
        )
        refitter = ExtenderRefitter(extender, node=NODE, user_agent="test")
        parts = parts_of(cluster.server.client(), refitter=refitter)
        cluster.pod("b", f"{given(0)};")
        assert "certificate verify failed" in refusal(parts, TWO)
        Path(scheduler.authority.ca_file).write_bytes(Path(renewed.ca_file).read_bytes())
        cluster.pod("c", f"{given(0)};")
        parts.allocator.allocate([[TWO]])
    assert [each.path for each in scheduler.asked] == ["/refit", "/refit"]


def test_a_token_that_is_not_taken_is_a_reason(
    cluster: Cluster, scheduler: Scheduler, tmp_path: Path
) -> None:
    """So is one that is not there, or an authority that is not."""
    with scheduler.serving() as server:
        wrong = tmp_path / "wrong"
        wrong.write_text("wrong")
        for token, ca_file, said in (
            (wrong, Path(scheduler.authority.ca_file), "401"),
            (tmp_path / "none", Path(scheduler.authority.ca_file), "token file"),
            (wrong, tmp_path / "none", "the CA file"),
        ):
            extender = Extender(endpoint=server.url, ca_file=ca_file, token_file=token)
            refitter = ExtenderRefitter(extender, node=NODE, user_agent="test")
            parts = parts_of(cluster.server.client(), refitter=refitter)
            name = f"a-{said.replace(' ', '-').lower()}"
            cluster.pod(name, f"{given(0)};")
            assert said in refusal(parts, TWO)
    assert len(scheduler.asked) == 1


@pytest.mark.parametrize("endpoint", ["http://x/refit", "x:9445", "", "https://", "https://x/?a=b"])
def test_only_https_is_spoken(endpoint: str, tmp_path: Path) -> None:
    """A token is sent there."""
    with pytest.raises(ValueError, match="no https URL"):
        Extender(endpoint=endpoint, ca_file=None, token_file=tmp_path / "token")
