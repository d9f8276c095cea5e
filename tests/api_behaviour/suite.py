"""All scenes by name, and how one is played."""

import contextlib
import inspect
import secrets
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from kube.client import Client
from tests.api_behaviour import kubectl as kubectl_scenes
from tests.api_behaviour.scenes import (
    admitting,
    devices,
    discovering,
    guarding,
    owning,
    patching,
    selecting,
    statuses,
    watching,
    writing,
)
from tests.api_behaviour.server import Kubectl, Server
from tests.patience import eventually

Scene = Callable[[Server], None]

_MODULES: Final = (
    writing,
    selecting,
    watching,
    patching,
    owning,
    statuses,
    devices,
    discovering,
    admitting,
    guarding,
)


def _scenes_of(module: ModuleType) -> dict[str, Scene]:
    """Return the functions of *module* that take a server and nothing else."""
    topic = module.__name__.rsplit(".", maxsplit=1)[-1]
    return {
        f"{topic}/{name}": function
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
        and list(inspect.signature(function).parameters) == ["api"]
    }


SCENES: Final[dict[str, Scene]] = {
    name: scene for module in _MODULES for name, scene in _scenes_of(module).items()
}


def play(name: str, client: Client, kubectl: Kubectl | None = None) -> dict[str, Any]:
    """Play one scene in a namespace of its own and return what it told."""
    with namespace(client) as own:
        server = Server(client=client, namespace=own, kubectl=kubectl)
        ({**SCENES, **kubectl_scenes.SCENES})[name](server)
        return server.told


@contextlib.contextmanager
def namespace(client: Client) -> Iterator[str]:
    """Make a namespace that takes pods and have it deleted after the block."""
    name = f"behaviour-{secrets.token_hex(4)}"
    api = Server(client=client, namespace=name, kubectl=None)
    api.send("", "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    try:
        account = api.at("serviceaccounts", "default")
        if api.send("", "GET", account).get("code") == 404:
            eventually(lambda: "code" not in _with_account(api, account))
        yield name
    finally:
        api.send("", "DELETE", f"/api/v1/namespaces/{name}")


def _with_account(api: Server, path: str) -> dict[str, Any]:
    """Make the account that pods need before its controller does."""
    api.send("", "POST", api.at("serviceaccounts"), {"metadata": {"name": "default"}})
    return api.send("", "GET", path)
