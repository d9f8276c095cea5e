"""Who may call `/refit`."""

import asyncio
from typing import Any

import pytest

from extender.callers import Caller, CallerError, Callers
from extender.calls import Calls
from extender.metrics import Metrics
from kube.client import Client
from kube.config import ClientConfig
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

PLUGIN = "system:serviceaccount:kube-system:hami-device-plugin"
_EXTRA = "authentication.kubernetes.io/"


def reviewed(username: str = PLUGIN, **extra: str) -> dict[str, Any]:
    """Return the status of a review that found who it is."""
    said = {_EXTRA + key.replace("_", "-"): [value] for key, value in extra.items()}
    return {"authenticated": True, "user": {"username": username, "extra": said}}


def _identify(
    status: dict[str, Any] | int,
    header: str = "Bearer t",
    *,
    audiences: tuple[str, ...] = (),
    pod: dict[str, Any] | None = None,
) -> tuple[Caller | CallerError, list[Request]]:
    def script(request: Request, exchange: Exchange) -> None:
        if request.path.endswith("/tokenreviews") and isinstance(status, int):
            exchange.status(status, "No", "no")
        elif request.path.endswith("/tokenreviews"):
            exchange.json({**request.json(), "status": status}, 201)
        elif pod is not None and request.path == "/api/v1/namespaces/kube-system/pods/plugin-x":
            exchange.json(pod)
        else:
            exchange.status(404, "NotFound", "no")

    async def play(client: Client) -> Caller | CallerError:
        calls = Calls(client, Metrics())
        try:
            return await Callers(calls, accounts=(PLUGIN,), audiences=audiences).identify(header)
        except CallerError as error:
            return error
        finally:
            calls.close()

    with ScriptedServer(script) as server:
        client = Client(ClientConfig(host=server.url), user_agent="test")
        found = asyncio.run(play(client))
        client.close()
        return found, server.requests


def test_the_token_says_the_node() -> None:
    """One request; the token goes nowhere else."""
    found, requests = _identify(reviewed(node_name="gpu1"), audiences=("refit",))
    assert isinstance(found, CallerError)
    found, requests = _identify(
        {**reviewed(node_name="gpu1"), "audiences": ["refit"]}, audiences=("refit",)
    )
    assert found == Caller(username=PLUGIN, node="gpu1")
    (request,) = requests
    assert request.json()["spec"] == {"token": "t", "audiences": ["refit"]}


def _pod(uid: str = "u", node: str = "gpu2") -> dict[str, Any]:
    metadata = {"namespace": "kube-system", "name": "plugin-x", "uid": uid}
    return {"metadata": metadata, "spec": {"nodeName": node}}


def test_an_older_token_says_the_pod() -> None:
    """Whose node is looked up, by name and UID."""
    status = reviewed(pod_name="plugin-x", pod_uid="u")
    assert _identify(status, pod=_pod())[0] == Caller(username=PLUGIN, node="gpu2")
    for pod in (None, _pod(uid="other"), _pod(node="")):
        found, _ = _identify(status, pod=pod)
        assert isinstance(found, CallerError)
        assert found.status == 403


@pytest.mark.parametrize("header", ["", "Basic x", "Bearer", "Bearer ", "Bearer " + "x" * 20000])
def test_without_a_token_nobody_is_asked(header: str) -> None:
    """What cannot be a token costs the API server nothing."""
    found, requests = _identify(reviewed(node_name="gpu1"), header)
    assert isinstance(found, CallerError)
    assert found.status == 401
    assert not requests


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"authenticated": False}, 401),
        ({}, 401),
        ({"authenticated": "true", "user": {"username": PLUGIN}}, 401),
        ({"authenticated": True, "user": None}, 401),
        (reviewed("system:serviceaccount:default:default", node_name="gpu1"), 403),
        (reviewed("system:node:gpu1", node_name="gpu1"), 403),
        (reviewed(), 403),
        ({"authenticated": True, "user": {"username": PLUGIN, "extra": {"x": 1}}}, 403),
        (500, 503),
    ],
)
def test_others_may_not(status: dict[str, Any] | int, code: int) -> None:
    """Unknown, not a device plugin, from nowhere, or nobody can tell."""
    found, _ = _identify(status)
    assert isinstance(found, CallerError)
    assert found.status == code
