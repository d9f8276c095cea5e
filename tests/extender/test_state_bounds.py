"""Quotas of the extender: what holds, what is used, and what is left."""

import pytest

from extender.accounting import Booking, Use
from extender.state.bounds import Bounds
from extender.state.reading import WatchedQuota
from hami.deviceconfig import DeviceConfig
from hami.quota import quota_names


def _bounds() -> Bounds:
    config = DeviceConfig()
    return Bounds(quota_names(config.nvidia, config.vendors))


def _quota(name: str = "q", **hard: str) -> WatchedQuota:
    said = {key.replace("__", "/").replace("_", "."): text for key, text in hard.items()}
    return WatchedQuota(namespace="team", name=name, hard=said)


def _booking(memory_mib: int, cores: int, word: str = "NVIDIA") -> Booking:
    return Booking(
        uid="p", uses={word: {"GPU-a": Use(slots=1, memory_mib=memory_mib, cores=cores)}}
    )


def test_namespace_without_quota_has_no_end() -> None:
    """Nothing bounds a namespace that has no quota, or one on other things."""
    bounds = _bounds()
    assert bounds.room("team").is_endless
    bounds.put(_quota(pods="3", limits_nvidia_com__gpumemory="5"))
    assert bounds.room("team").is_endless
    assert bounds.room("team").has_room("NVIDIA", 10**9, 10**9)


@pytest.mark.parametrize("prefix", ["limits", "requests"])
def test_what_is_used_is_taken_off(prefix: str) -> None:
    """Room is the limit less what other pods use, and grows again with what they free."""
    bounds = _bounds()
    bounds.put(_quota(**{f"{prefix}_nvidia_com__gpumem": "10k"}))
    bounds.add("team", _booking(4000, 50))
    assert bounds.room("team").left("NVIDIA") == (6000, None)
    assert bounds.room("team").has_room("NVIDIA", 6000, 1000)
    assert not bounds.room("team").has_room("NVIDIA", 6001, 0)
    bounds.add("team", _booking(4000, 50), -1)
    assert bounds.room("team").left("NVIDIA") == (10000, None)
    assert bounds.used() == {}


@pytest.mark.parametrize("text", ["0", "much", "-5", "1.5"])
def test_zero_and_unreadable_limits_forbid(text: str) -> None:
    """An explicit zero allows nothing, nor does what nobody can read."""
    bounds = _bounds()
    bounds.put(_quota(limits_nvidia_com__gpumem=text))
    assert not bounds.room("team").has_room("NVIDIA", 1, 0)


def test_all_quotas_of_a_namespace_hold_until_they_are_gone() -> None:
    """The least of several limits holds; deleting one leaves the others."""
    bounds = _bounds()
    bounds.put(_quota("a", limits_nvidia_com__gpucores="50"))
    bounds.put(_quota("b", limits_nvidia_com__gpucores="20"))
    assert bounds.room("team").left("NVIDIA") == (None, 20)
    bounds.drop("team", "b")
    assert bounds.room("team").left("NVIDIA") == (None, 50)
    bounds.drop("team", "a")
    bounds.drop("team", "a")
    assert bounds.room("team").is_endless


def test_limits_are_in_the_units_of_their_vendor() -> None:
    """A unit of Cambricon's memory is 256 MiB; a binary suffix is bytes."""
    bounds = _bounds()
    bounds.put(_quota(limits_cambricon_com__mlu_smlu_vmemory="2"))
    assert bounds.room("team").left("MLU") == (512, None)
    bounds.put(_quota(limits_nvidia_com__gpumem="4Gi"))
    assert bounds.room("team").left("NVIDIA") == (4096, None)
