"""Access, journal, kubeconfig and injected faults."""

import stat
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.sim.apiserver.builders import PODS, Served, configmap, pod, served, watching

MAPS = "/api/v1/namespaces/default/configmaps"


def test_strangers_are_refused() -> None:
    """Without a known token every path is a 401."""

    async def scene(at: Served) -> None:
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}):
            async with (
                aiohttp.ClientSession(at.server.url, headers=header) as session,
                session.get("/version") as response,
            ):
                assert response.status == 401
                assert (await response.json())["reason"] == "Unauthorized"
        assert at.server.token_for("tester") == at.server.token_for("tester")
        at.server.revoke("tester")
        assert (await at.wire.get("/version"))[0] == 401

    served(scene)


def test_the_journal_tells_who_did_what() -> None:
    """Requests are noted with user, Kubernetes' verb, path and status."""

    async def scene(at: Served) -> None:
        await at.wire.post(MAPS, configmap())
        await at.wire.get(f"{MAPS}/map")
        await at.wire.get(f"{MAPS}/none")
        async with watching(at.wire, f"{MAPS}?watch=1&resourceVersion=1"):
            pass
        await at.wire.delete(MAPS)
        told = [(entry.user, entry.verb, entry.path, entry.status) for entry in at.server.requests]
        assert told == [
            ("tester", "create", MAPS, 201),
            ("tester", "get", f"{MAPS}/map", 200),
            ("tester", "get", f"{MAPS}/none", 404),
            ("tester", "watch", MAPS, 200),
            ("tester", "deletecollection", MAPS, 200),
        ]

    served(scene)


def test_a_kubeconfig_leads_to_the_server(tmp_path: Path) -> None:
    """The file is for its owner's eyes only; its address works without a header too."""

    async def scene(at: Served) -> None:
        path = tmp_path / "config"
        at.server.write_kubeconfig(path, user="someone")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        content = yaml.safe_load(path.read_text())
        url = content["clusters"][0]["cluster"]["server"]
        token = content["users"][0]["user"]["token"]
        assert url.startswith(at.server.url)
        for address, header in ((at.server.url, f"Bearer {token}"), (url, "")):
            headers = {"Authorization": header} if header else {}
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.get(f"{address}/api/v1/nodes") as response,
            ):
                assert response.status == 200
        assert [entry.user for entry in at.server.requests] == ["someone", "someone"]
        assert {entry.path for entry in at.server.requests} == {"/api/v1/nodes"}
        assert content["current-context"] == content["contexts"][0]["name"]

    served(scene)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(500, "InternalError"), (503, "ServiceUnavailable"), (429, "TooManyRequests")],
)
def test_requests_fail_on_demand(status: int, reason: str) -> None:
    """The next requests fail as told, the ones after them do not."""

    async def scene(at: Served) -> None:
        at.server.fail_next(2, status)
        for _ in range(2):
            code, answer = await at.wire.post(MAPS, configmap())
            assert (code, answer["reason"]) == (status, reason)
        assert ("Retry-After" in at.wire.headers) is (status == 429)
        assert (await at.wire.post(MAPS, configmap()))[0] == 201

    served(scene)


def test_faults_can_be_aimed() -> None:
    """A fault may wait for a verb and a part of the path."""

    async def scene(at: Served) -> None:
        at.server.fail_next(1, 500, verb="update", path_part="configmaps")
        assert (await at.wire.post(MAPS, configmap()))[0] == 201
        assert (await at.wire.post(PODS, pod()))[0] == 201
        assert (await at.wire.put(f"{MAPS}/map", configmap()))[0] == 500
        at.server.fail_next(5, 500)
        at.server.clear_faults()
        assert (await at.wire.put(f"{MAPS}/map", configmap()))[0] == 200

    served(scene)


def test_a_paused_server_is_unreachable() -> None:
    """Connections break and are refused until the server resumes at the same address."""

    async def scene(at: Served) -> None:
        url = at.server.url
        _, made = await at.wire.post(MAPS, configmap())
        newest = made["metadata"]["resourceVersion"]
        async with watching(at.wire, f"{MAPS}?watch=1&resourceVersion={newest}") as stream:
            await at.server.pause()
            with pytest.raises(aiohttp.ClientError):
                await stream.rest()
        with pytest.raises(aiohttp.ClientError):
            await at.wire.get(MAPS)
        await at.api.create("configmaps", configmap("meanwhile"), "default")
        await at.server.resume()
        assert at.server.url == url
        _, listed = await at.wire.get(MAPS)
        assert len(listed["items"]) == 2

    served(scene)


def test_bodies_may_be_yaml() -> None:
    """A client may send YAML, and gets a 400 for what is neither."""

    async def scene(at: Served) -> None:
        headers = {"Content-Type": "application/yaml"}
        body = "metadata: {name: map}\ndata: {key: value}\n"
        async with at.wire.session.post(MAPS, data=body, headers=headers) as response:
            assert response.status == 201
        for kind, text in (("application/yaml", "{a: b"), ("application/json", "{a: b}")):
            async with at.wire.session.post(
                MAPS, data=text, headers={"Content-Type": kind}
            ) as response:
                assert response.status == 400
        assert (await at.wire.post(MAPS, [1]))[0] == 400

    served(scene)
