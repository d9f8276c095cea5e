"""The alternatives of every request: counted as made, told apart, and within the limits."""

import re

from hypothesis import given, settings

from gpu.refusal import RefusedError
from tests.webhook.strategies import ASKED
from webhook.alternatives import MIXED_MAX, alternatives_of, fits, fitted, how_many, separate
from webhook.devicewish import Asked, wished
from webhook.sharerequest import Devices, Near, ShareRequest


@settings(max_examples=150)
@given(asked=ASKED)
def test_they_are_as_many_as_were_counted(asked: Asked) -> None:
    """Counting makes none, so it has to agree; names are labels, each there once."""
    try:
        request, _ = wished(asked)
    except RefusedError:
        return
    found = alternatives_of(request)
    assert len(found) == how_many(request)
    assert len({each.name for each in found}) == len(found)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", each.name) for each in found)
    assert found[-1].near is None


def test_each_device_is_a_request_where_one_request_could_not_say_it() -> None:
    """On old clusters always; else for a few GPUs of several sizes."""
    sizes = (1000, 2000)
    few = ShareRequest(count=MIXED_MAX, memory_percent=50, sizes_mib=sizes, cores=0)
    assert separate(few)
    assert not separate(few.model_copy(update={"count": MIXED_MAX + 1}))
    assert not separate(few.model_copy(update={"sizes_mib": (1000,)}))
    assert not separate(few.model_copy(update={"count": 1}))
    old = ShareRequest(count=2, memory_mib=1, cores=0, count_is_distinct=False)
    assert separate(old)
    assert not separate(old.model_copy(update={"devices": Devices.MIG}))


def test_what_fits_keeps_all_its_wishes() -> None:
    """Nothing is given up without need."""
    request = ShareRequest(
        count=2, memory_mib=1, cores=0, near=(Near.NUMA_NODE,), fill="spread", fill_steps=4
    )
    assert fits(request)
    assert fitted(request, "field") == (request, ())


def test_of_two_closenesses_the_numa_node_stays() -> None:
    """Four sizes have room for one of them."""
    request = ShareRequest(
        count=9,
        memory_percent=50,
        sizes_mib=(1, 2, 3, 4),
        cores=0,
        near=(Near.PCIE_ROOT, Near.NUMA_NODE),
    )
    less, (warning,) = fitted(request, "field")
    assert less.near == (Near.NUMA_NODE,)
    assert warning.value == "devices of one pcieRoot"
    assert warning.field == "field"
