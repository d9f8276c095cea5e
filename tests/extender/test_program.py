"""The whole program in one loop, beside a simulated API server."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
import trustme

from extender.leadlabel import LABEL
from extender.parts import MakeParts, Parts, StartError, Surroundings
from extender.program import Program
from extender.settings import ExtenderSettings
from kube.client import Client
from kube.config import ClientConfig
from kube.objects import JsonObject
from kube.paths import leases, nodes, pods
from tests.extender.locking import until
from tests.extender.standins import (
    CHOSEN,
    MemoryState,
    ScriptedChooser,
    ScriptedRefitter,
    following,
    reservation,
)
from tests.fakes.api_server import serving

_HOST = "127.0.0.1"


@dataclass
class Scene:
    """A running program and what a test may touch."""

    program: Program
    client: Client
    state: MemoryState
    chooser: ScriptedChooser = field(default_factory=lambda: ScriptedChooser(answer=CHOSEN))

    async def ask(self, path: str, body: Any = None, *, port: int | None = None) -> tuple[int, str]:
        """Ask as kube-scheduler does."""
        return await asyncio.to_thread(_ask, port or self.program.port, path, body)

    async def post(self, path: str, body: Any) -> Any:
        """Return an answer of status 200."""
        status, text = await self.ask(path, body)
        assert status == 200, text
        return json.loads(text)

    async def lease(self, holder: str) -> None:
        """Have somebody lead."""
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
        metadata = {"name": "hami-scheduler", "namespace": "kube-system"}
        item = {"metadata": metadata, "spec": spec}
        try:
            await asyncio.to_thread(self.client.create, leases("kube-system"), item)
        except Exception:  # noqa: BLE001 - it is there already
            path = leases("kube-system", "hami-scheduler")
            await asyncio.to_thread(self.client.replace, path, item)

    async def create(self, path: str, item: JsonObject) -> JsonObject:
        """Create an object."""
        made: JsonObject = json.loads(await asyncio.to_thread(self.client.create, path, item))
        return made


def _ask(port: int, path: str, body: Any) -> tuple[int, str]:
    connection = HTTPConnection(_HOST, port, timeout=30)
    try:
        if body is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(body).encode())
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def _settings(*flags: str) -> ExtenderSettings:
    return ExtenderSettings.from_arguments(
        [
            *("--port", "0", "--metrics-port", "0", "--metrics-address", _HOST),
            *("--hostname", "sched-1", "--wait-ready-s", "0.05"),
            *("--refit-port", "0", "--refit-address", _HOST),
            *flags,
        ],
        program="gpuslice-extender",
    )


@asynccontextmanager
async def running(*flags: str) -> AsyncIterator[Scene]:
    """Run a program until the block ends."""
    with serving() as server:
        client = server.client("extender")
        token = server.call(server.server.token_for, "extender")
        state = MemoryState()
        chooser = ScriptedChooser(answer=CHOSEN)

        def make_parts(_surroundings: Surroundings) -> Parts:
            return Parts(chooser=chooser, state=state, refitter=ScriptedRefitter("no"))

        program = Program(
            _settings(*flags),
            make_parts,
            identity=ClientConfig(host=server.server.url, token=lambda: token),
        )
        task = asyncio.create_task(program.run())
        try:
            with following(state, client):
                yield Scene(program, client, state, chooser)
        finally:
            program.stop()
            await task
            client.close()


def _question() -> JsonObject:
    pod = {"metadata": {"namespace": "default", "name": "p"}}
    return {"Pod": pod, "Nodes": None, "NodeNames": ["gpu1"]}


def test_it_decides_and_binds_while_its_scheduler_leads() -> None:
    """Ready with the Lease, refusing without."""

    async def play() -> None:
        async with running() as here:
            assert (await here.ask("/readyz"))[0] == 503
            assert "has not been seen" in (await here.post("/filter", _question()))["Error"]
            await here.lease("sched-1_uuid")
            await until(here.program._leading.leads)
            assert (await here.post("/filter", _question()))["NodeNames"] == ["gpu1"]
            await here.create(nodes(), {"metadata": {"name": "gpu1"}})
            spec = {"containers": [{"name": "c", "image": "i"}]}
            pod = await here.create(pods("default"), {"metadata": {"name": "p"}, "spec": spec})
            uid = pod["metadata"]["uid"]
            await until(lambda: here.state.nodes and here.state.pods)
            here.state.reserve(reservation("p", uid=uid))
            binding = {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "gpu1"}
            assert await here.post("/bind", binding) == {"Error": ""}
            bound = json.loads(await asyncio.to_thread(here.client.get, pods("default", "p")))
            assert bound["spec"]["nodeName"] == "gpu1"
            assert bound["metadata"]["annotations"]["hami.io/vgpu-node"] == "gpu1"
            here.state.reserve(reservation("q"))
            await here.lease("sched-10_uuid")
            await until(lambda: not here.program._leading.leads())
            assert not here.state.reservations
            assert (await here.ask("/readyz"))[0] == 503
            assert "sched-10_uuid leads" in (await here.post("/bind", binding))["Error"]

    asyncio.run(play())


def test_its_pod_is_ready_without_the_lead_and_labelled_with_it() -> None:
    """So a rollout counts all replicas, and a Service finds the one that decides."""

    async def play() -> None:
        async with running("--pod-name", "sched-1", "--pod-namespace", "kube-system") as here:
            assert (await here.ask("/readyz"))[0] == 503
            assert (await here.ask("/readyz?exclude=lead"))[0] == 200
            here.state.problem = "pods not read"
            assert (await here.ask("/readyz?exclude=lead"))[0] == 503
            here.state.problem = None
            # The label of a container before this one; the pod is seen late.
            metadata = {"name": "sched-1", "labels": {LABEL: "true", "app": "scheduler"}}
            spec = {"containers": [{"name": "c", "image": "i"}]}
            await here.create(pods("kube-system"), {"metadata": metadata, "spec": spec})

            async def labels() -> dict[str, str]:
                path = pods("kube-system", "sched-1")
                said = json.loads(await asyncio.to_thread(here.client.get, path))
                return dict(said["metadata"]["labels"])

            await seen(labels, {"app": "scheduler"})
            await here.lease("sched-1_uuid")
            await seen(labels, {"app": "scheduler", LABEL: "true"})
            await here.lease("sched-2_uuid")
            await seen(labels, {"app": "scheduler"})

    async def seen(labels: Callable[[], Awaitable[dict[str, str]]], wanted: dict[str, str]) -> None:
        async with asyncio.timeout(20):
            while await labels() != wanted:  # noqa: ASYNC110 - the API server tells nobody
                await asyncio.sleep(0.02)

    asyncio.run(play())


def test_without_an_election_it_decides_at_once() -> None:
    """A single replica has no Lease to follow."""

    async def play() -> None:
        async with running("--no-leader-elect") as here:
            assert (await here.post("/filter", _question()))["NodeNames"] == ["gpu1"]

    asyncio.run(play())


def test_figures_are_shown_on_both_ports_and_decisions_on_one() -> None:
    """Probes and Prometheus come from outside."""

    async def play() -> None:
        async with running("--no-leader-elect") as here:
            port = here.program.metrics_port
            for path in ("/healthz", "/readyz", "/metrics"):
                assert (await here.ask(path))[0] == 200
                assert (await here.ask(path, port=port))[0] == 200
            assert (await here.ask("/filter", _question(), port=port))[0] == 404

    asyncio.run(play())


def test_refit_is_served_over_tls_to_whom_it_is_for(tmp_path: Path) -> None:
    """Without accounts that may ask there is no such port."""
    authority = trustme.CA()
    issued = authority.issue_cert(_HOST)
    issued.private_key_pem.write_to_path(str(tmp_path / "tls.key"))
    (tmp_path / "tls.crt").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    context = ssl.create_default_context()
    authority.configure_trust(context)

    def refit(port: int) -> int:
        connection = HTTPSConnection(_HOST, port, timeout=30, context=context)
        try:
            connection.request("POST", "/refit", b"{}")
            return connection.getresponse().status
        finally:
            connection.close()

    async def play() -> None:
        async with running("--no-leader-elect") as here:
            assert here.program.refit_port is None
        flags = (
            *("--refit-accounts", "system:serviceaccount:kube-system:plugin"),
            *("--tls-cert-file", str(tmp_path / "tls.crt")),
            *("--tls-key-file", str(tmp_path / "tls.key")),
        )
        async with running("--no-leader-elect", *flags) as here:
            port = here.program.refit_port
            assert port is not None
            refit_tls = here.program._refit_tls
            assert refit_tls is not None
            await until(lambda: refit_tls.expires_at)
            assert await asyncio.to_thread(refit, port) == 401

    asyncio.run(play())


def _no_parts(_surroundings: Surroundings) -> Parts:
    return Parts(chooser=ScriptedChooser(), state=MemoryState())


@pytest.mark.parametrize("parts", [_no_parts])
def test_a_port_that_is_taken_ends_the_start(parts: MakeParts) -> None:
    """With its number."""

    async def play() -> None:
        async with running("--no-leader-elect") as here:
            taken = here.program.port
            with pytest.raises(StartError, match=str(taken)):
                Program(
                    _settings("--port", str(taken)),
                    parts,
                    identity=ClientConfig(host="http://127.0.0.1:1"),
                )

    asyncio.run(play())


def test_what_runs_beside_is_started_and_stopped_in_order() -> None:
    """A part that fails ends the program."""
    told: list[str] = []

    @dataclass
    class Part:
        name: str

        def start(self) -> None:
            told.append(f"start {self.name}")

        def stop(self) -> None:
            told.append(f"stop {self.name}")

    async def fail() -> None:
        await asyncio.sleep(0.01)
        message = "broken"
        raise ValueError(message)

    def make_parts(_surroundings: Surroundings) -> Parts:
        return Parts(
            chooser=ScriptedChooser(),
            state=MemoryState(),
            background=(Part("a"), Part("b")),
            services=(fail,),
        )

    async def play() -> None:
        program = Program(
            _settings("--no-leader-elect"),
            make_parts,
            identity=ClientConfig(host="http://127.0.0.1:1"),
        )
        with pytest.raises(ExceptionGroup):
            await program.run()

    asyncio.run(play())
    assert told == ["start a", "start b", "stop b", "stop a"]
