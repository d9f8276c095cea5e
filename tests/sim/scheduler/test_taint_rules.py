"""A running scheduler follows rules that taint devices from outside their slices."""

from tests.sim.scheduler.scene import DRIVER, Scene, played


def test_pod_waits_as_long_as_a_rule_taints_its_device() -> None:
    """The device is named as tainted, and the pod runs on it once the rule is deleted."""

    async def play(scene: Scene) -> None:
        await scene.rule("broken", driver=DRIVER, pool="a", device="gpu-0")
        await scene.node("a")
        await scene.claim("c", "1Gi")
        await scene.pod("p", "c")
        assert "example.com/broken:NoSchedule" in await scene.pending("p", "TaintNotTolerated")
        await scene.api.delete("devicetaintrules", "broken")
        assert await scene.bound("p") == "a"

    played(play, "1.37")


def test_rule_that_changes_is_followed() -> None:
    """A rule moves to another pool, or becomes advice, and pods go where it is not."""

    async def play(scene: Scene) -> None:
        await scene.node("a")
        await scene.node("b")
        await scene.rule("broken", pool="a")
        await scene.claim("one", "1Gi")
        await scene.pod("one", "one")
        assert await scene.bound("one") == "b"
        spec = {"deviceSelector": {"pool": "b"}}
        await scene.api.patch("devicetaintrules", "broken", {"spec": spec})
        await scene.claim("two", "1Gi")
        await scene.pod("two", "two")
        assert await scene.bound("two") == "a"
        anywhere = {"spec": {"deviceSelector": {"pool": None}}}
        await scene.api.patch("devicetaintrules", "broken", anywhere)
        await scene.claim("three", "1Gi")
        await scene.pod("three", "three")
        await scene.pending("three", "TaintNotTolerated")
        advice = {"spec": {"taint": {"effect": "None"}}}
        await scene.api.patch("devicetaintrules", "broken", advice)
        assert await scene.bound("three") == "a"

    played(play, "1.37")


def test_running_pod_stays_on_a_tainted_device() -> None:
    """A rule keeps the next pod from the device and takes nothing from the one that runs."""

    async def play(scene: Scene) -> None:
        await scene.node("a")
        for name in ("one", "two"):
            await scene.claim(name, "1Gi")
        await scene.pod("one", "one")
        await scene.bound("one")
        await scene.rule("broken", effect="NoExecute", driver=DRIVER)
        await scene.pod("two", "two")
        await scene.pending("two", "example.com/broken:NoExecute")
        assert (await scene.get("resourceclaims", "one"))["status"]["reservedFor"]
        assert (await scene.get("pods", "one"))["spec"]["nodeName"] == "a"

    played(play, "1.37")
