"""Health streams: which service is opened, and what of a report lasts."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from protos import dra_health_v1_pb2 as wire
from sim.kubelet.health import DeviceHealth, HealthCache
from sim.kubelet.timing import Timing
from tests.sim.kubelet.scene import QUICK, scene, until

DRA = "v1.DRAPlugin"
V1, V1ALPHA1 = "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"
KEY = ("gpu.example.com", "pool", "dev0")


def response(*devices: str, timeout_s: int = 0, message: str = "") -> Any:
    """Return a response that calls all *devices* healthy."""
    return wire.NodeWatchResourcesResponse(
        devices=[
            wire.DeviceHealth(
                device=wire.DeviceIdentifier(pool_name="pool", device_name=name),
                health=wire.HEALTHY,
                health_check_timeout_seconds=timeout_s,
                message=message,
            )
            for name in devices
        ]
    )


def test_a_device_that_is_not_named_again_keeps_its_word_until_it_is_old() -> None:
    """The next response takes nothing back at once: a device left out expires by its timeout."""
    cache = HealthCache(replace(Timing(), health_timeout_s=0.0))
    cache.take("nic.example.com", response("dev9", timeout_s=60))
    cache.take("gpu.example.com", response("dev0", timeout_s=60))
    cache.take("gpu.example.com", response("dev1"))
    assert cache.look()[KEY].health == "Healthy"
    cache.take("gpu.example.com", response("dev2"))
    other = ("nic.example.com", "pool", "dev9")
    assert set(cache.look()) == {KEY, other, ("gpu.example.com", "pool", "dev2")}
    cache.forget("gpu.example.com")
    assert set(cache.look()) == {other}


def test_an_old_report_is_unknown() -> None:
    """Without a heartbeat the word expires, after the plugin's time or kubelet's."""
    cache = HealthCache(replace(Timing(), health_timeout_s=0.0))
    cache.take("gpu.example.com", response("dev0", message="fine"))
    assert cache.look()[KEY] == DeviceHealth(health="Unknown")
    cache.take("gpu.example.com", response("dev0", timeout_s=60, message="fine"))
    assert cache.look()[KEY] == DeviceHealth(health="Healthy", message="fine")


def test_long_messages_are_cut() -> None:
    """1024 bytes pass, more are cut to 1021 and dots."""
    cache = HealthCache(Timing())
    cache.take("gpu.example.com", response("dev0", message="x" * 1024))
    assert cache.look()[KEY].message == "x" * 1024
    cache.take("gpu.example.com", response("dev0", message="x" * 1025))
    assert cache.look()[KEY].message == "x" * 1021 + "..."


@pytest.mark.parametrize(
    ("version", "versions", "opened"),
    [
        ("1.37", (DRA, V1ALPHA1, V1), "v1"),
        ("1.37", (DRA, V1ALPHA1), "v1alpha1"),
        ("1.37", (DRA,), None),
        ("1.36", (DRA, V1), "v1alpha1"),
        ("1.36", (DRA,), "v1alpha1"),
        ("1.35", (DRA, V1, V1ALPHA1), None),
    ],
)
def test_the_release_chooses_the_service(
    version: str, versions: tuple[str, ...], opened: str | None
) -> None:
    """1.37 opens what was advertised, v1 first; 1.36 opens v1alpha1 whether or not it was."""

    async def play() -> None:
        async with scene(version=version) as node:
            health = [("dev0", wire.UNHEALTHY, 60, "XID 79")]
            plugin = await node.registered(node.plugin(versions=versions, health=health))
            if opened is None:
                await asyncio.sleep(0.1)
                assert plugin.health_services == []
                return
            await until(lambda: KEY in node.kubelet.device_health())
            assert plugin.health_services == [opened]
            told = node.kubelet.device_health()[KEY]
            assert told == DeviceHealth(health="Unhealthy", message="XID 79")

    asyncio.run(play())


def test_a_stream_that_ends_is_forgotten_and_opened_again() -> None:
    """Kubelet knows nothing without a stream, and asks again."""

    async def play() -> None:
        async with scene(timing=replace(QUICK, health_retry_s=0.3)) as node:
            health = [("dev0", wire.HEALTHY, 60, "")]
            plugin = await node.registered(node.plugin(versions=(DRA, V1), health=health))
            await until(lambda: KEY in node.kubelet.device_health())
            await asyncio.to_thread(plugin.stop_dra)
            await until(lambda: not node.kubelet.device_health())
            plugin._ended.clear()
            await asyncio.to_thread(plugin.start_dra)
            await until(lambda: KEY in node.kubelet.device_health())

    asyncio.run(play())


@pytest.mark.parametrize(("version", "asked"), [("1.36", 3), ("1.37", 1)])
def test_only_old_kubelets_ask_again_for_what_nobody_implements(version: str, asked: int) -> None:
    """1.36 opens a stream that is not implemented for ever; 1.37 opens it once."""

    async def play() -> None:
        timing = replace(QUICK, health_retry_s=0.01)
        async with scene(version=version, timing=timing) as node:
            plugin = await node.registered(
                node.plugin(versions=(DRA, V1ALPHA1), serves_health=False)
            )
            await until(lambda: len(plugin.health_services) >= asked)
            await asyncio.sleep(0.3)
            assert (len(plugin.health_services) > 1) is (version == "1.36")
            assert node.kubelet.device_health() == {}

    asyncio.run(play())
