"""Sockets found, plugins asked, versions chosen, and what ends a registration."""

import asyncio
import contextlib
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from sim.kubelet.errors import RegistrationError
from sim.kubelet.registration import choose_service, find_sockets
from sim.kubelet.release import release
from sim.kubelet.timing import backoff
from tests.sim.kubelet.plugin_server import PluginServer
from tests.sim.kubelet.scene import QUICK, scene, until

BOTH = ("v1.DRAPlugin", "v1beta1.DRAPlugin")


def bind(path: Path) -> None:
    """Leave a socket file at *path*."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(os.path.relpath(path))


def test_only_visible_sockets_count(tmp_path: Path) -> None:
    """Files and dot names are no plugins; sockets in sub-directories are."""
    bind(tmp_path / "a-reg.sock")
    bind(tmp_path / "sub/b-reg.sock")
    bind(tmp_path / ".hidden.sock")
    bind(tmp_path / ".folder/c-reg.sock")
    (tmp_path / "file-reg.sock").touch()
    found = [path.name for path in find_sockets(tmp_path)]
    assert sorted(found) == ["a-reg.sock", "b-reg.sock"]


def test_a_new_socket_of_the_same_name_is_another(tmp_path: Path) -> None:
    """A path that was removed and made again has a new identity."""
    path = tmp_path / "a-reg.sock"
    bind(path)
    before = find_sockets(tmp_path)[path]
    path.unlink()
    bind(path)
    assert find_sockets(tmp_path)[path] != before


@pytest.mark.parametrize(
    ("supported", "version", "chosen"),
    [
        (BOTH, "1.37", "v1.DRAPlugin"),
        (BOTH[::-1], "1.37", "v1beta1.DRAPlugin"),
        (BOTH, "1.33", "v1beta1.DRAPlugin"),
        (("v1.DRAResourceHealth", "v2.DRAPlugin", "v1.DRAPlugin"), "1.36", "v1.DRAPlugin"),
    ],
)
def test_the_plugins_order_decides(supported: tuple[str, ...], version: str, chosen: str) -> None:
    """The first entry of the plugin's list that kubelet knows is used."""
    assert choose_service(supported, release(version).services) == chosen


@pytest.mark.parametrize("supported", [(), ("v1alpha4.DRAPlugin",), ("v1.DRAResourceHealth",)])
def test_no_known_service_is_an_error(supported: tuple[str, ...]) -> None:
    """A list without a known DRA service cannot be registered."""
    with pytest.raises(RegistrationError):
        choose_service(supported, release("1.37").services)


def test_old_kubelets_are_not_simulated() -> None:
    """Below 1.32 no service of today is known."""
    with pytest.raises(ValueError, match=r"1\.31"):
        release("1.31")


def test_backoff_doubles_up_to_its_limit() -> None:
    """Failures in a row wait longer and longer."""
    assert [backoff(0.5, 3.0, failures) for failures in range(1, 5)] == [0.5, 1.0, 2.0, 3.0]
    assert backoff(0.5, 3.0, 10_000) == 3.0


def test_a_plugin_is_registered_and_told() -> None:
    """Kubelet uses the endpoint and says so to the plugin."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            assert plugin.statuses == [(True, "")]
            assert node.endpoints() == [str(plugin.socket)]

    asyncio.run(play())


def test_an_empty_endpoint_means_the_registration_socket() -> None:
    """A plugin may serve everything on one socket."""

    async def play() -> None:
        async with scene() as node:
            plugin = node.plugin(own_endpoint=False)
            await until(lambda: node.endpoints() == [str(plugin.registration)])
            await node.claim("claim")
            await node.pod("pod", "claim")
            await until(lambda: plugin.made("prepare"))

    asyncio.run(play())


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"type": "CSIPlugin"}, "no handler registered for plugin type: CSIPlugin"),
        ({"versions": ()}, "empty list"),
        ({"versions": ("v1alpha3.DRAPlugin",)}, "v1alpha3.DRAPlugin"),
    ],
)
def test_a_refused_plugin_is_told_why(settings: dict[str, object], error: str) -> None:
    """A plugin that cannot be used hears the reason, again and again."""

    async def play() -> None:
        async with scene() as node:
            plugin = node.plugin(**settings)
            await until(lambda: len(plugin.statuses) >= 2)
            assert node.endpoints() == []
            assert all(not good and error in why for good, why in plugin.statuses)

    asyncio.run(play())


def test_a_slow_plugin_is_tried_again() -> None:
    """A plugin that answers too late is not registered until it answers in time."""

    async def play() -> None:
        timing = replace(QUICK, get_info_timeout_s=0.1)
        async with scene(timing=timing) as node:
            plugin = node.plugin(info_delay_s=0.4)
            await until(lambda: plugin.info_calls >= 2)
            assert node.endpoints() == []
            plugin.info_delay_s = 0
            await node.registered(plugin)

    asyncio.run(play())


def test_a_socket_without_a_listener_does_no_harm() -> None:
    """A stale socket is retried and hinders nobody."""

    async def play() -> None:
        async with scene() as node:
            bind(node.kubelet_root / "plugins_registry/stale-reg.sock")
            await node.registered(node.plugin())
            assert list(node.kubelet.registered_drivers()) == ["gpu.example.com"]

    asyncio.run(play())


def test_removing_the_socket_deregisters() -> None:
    """No socket, no plugin; a new one registers again."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            await asyncio.to_thread(plugin.stop)
            await until(lambda: node.endpoints() == [])
            await asyncio.to_thread(plugin.start)
            await until(lambda: plugin.statuses == [(True, ""), (True, "")])

    asyncio.run(play())


def test_the_newest_connected_instance_is_called() -> None:
    """Of two instances the later one gets the calls, the earlier one when that is lost."""

    async def play() -> None:
        async with scene() as node:
            old = await node.registered(node.plugin(instance="old"))
            new = await node.registered(node.plugin(instance="new"))
            assert node.endpoints() == [str(old.socket), str(new.socket)]
            await node.claim("one")
            await node.pod("pod-1", "one")
            await until(lambda: new.made("prepare"))
            assert old.made("prepare") == []
            await asyncio.to_thread(new.stop_dra)
            await node.claim("two")
            await node.pod("pod-2", "two")
            await until(lambda: old.made("prepare"))

    asyncio.run(play())


def test_an_endpoint_can_be_registered_once() -> None:
    """A second socket that names the same endpoint is refused."""

    async def play() -> None:
        async with scene() as node:
            first = await node.registered(node.plugin())
            second = PluginServer(node.kubelet_root, instance="b")
            node.plugins.append(second)
            second.start_dra = lambda: None  # type: ignore[method-assign]
            second.socket = first.socket
            await asyncio.to_thread(second.start)
            await until(lambda: second.statuses)
            assert "already registered" in second.statuses[0][1]
            assert node.endpoints() == [str(first.socket)]

    asyncio.run(play())


def test_a_restarted_kubelet_finds_the_sockets() -> None:
    """The plugin is asked again and told again."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            await node.kubelet.restart()
            await until(lambda: plugin.statuses == [(True, "")] * 2)
            assert node.endpoints() == [str(plugin.socket)]

    asyncio.run(play())


def test_a_hanging_call_ends_with_kubelet() -> None:
    """Stopping kubelet does not wait for a plugin that never answers."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            release_it = asyncio.Event()
            loop = asyncio.get_running_loop()

            def hang(uids: list[str]) -> dict[str, object]:
                asyncio.run_coroutine_threadsafe(release_it.wait(), loop).result(30)
                return {}

            plugin.prepare = hang  # type: ignore[assignment]
            await node.claim("claim")
            await node.pod("pod", "claim")
            await until(lambda: plugin.made("prepare"))
            await node.kubelet.stop()
            release_it.set()
            await node.kubelet.start()

    asyncio.run(play())
