"""Devices that follow from capacity, with HAMi's ids and sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.synthesis import devices_of_capacity
from hami.backends import backends
from hami.devices import RegisteredDevice
from hami.vendor_rules.vendor import Register
from tests.extender.nodes import ALL_VENDORS

BACKENDS = {each.word: each for each in backends(ALL_VENDORS)}


def devices(word: str, **capacity: str) -> tuple[RegisteredDevice, ...]:
    """Return the devices of a vendor on node `n`."""
    return devices_of_capacity(BACKENDS[word], "n", capacity)


MLU = {"cambricon.com/mlu.smlu.vcore": "200", "cambricon.com/mlu.smlu.vmemory": "128"}


@pytest.mark.parametrize(
    ("word", "capacity", "expected"),
    [
        (
            "MLU",
            MLU,
            [("n-cambricon-mlu-0", 100, 16384, 100, 0), ("n-cambricon-mlu-1", 100, 16384, 100, 0)],
        ),
        (
            "Mthreads",
            {"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"},
            [("n-mthreads-0", 100, 49152, 16, 0), ("n-mthreads-1", 100, 49152, 16, 0)],
        ),
        (
            "Mthreads",
            {"mthreads.com/sgpu-core": "17"},
            [("n-mthreads-0", 100, 0, 16, 0), ("n-mthreads-1", 100, 0, 16, 0)],
        ),
        ("Metax-GPU", {"metax-tech.com/gpu": "1"}, [("n-metax-0", 1, 65536, 100, 0)]),
        (
            "kunlun",
            {"kunlunxin.com/xpu": "2"},
            [("n-kunlun-0", 100, 98304, 100, 0), ("n-kunlun-1", 100, 98304, 100, 1)],
        ),
        ("GCU", {"enflame.com/gcu": "1"}, [("n-GCU-0", 1, 100, 100, 0)]),
        (
            "AWSNeuron",
            {"aws.amazon.com/neuron": "2", "aws.amazon.com/neuroncore": "8"},
            [("n-AWSNeuron-0", 4, 0, 15, 0), ("n-AWSNeuron-1", 4, 0, 15, 0)],
        ),
        ("AWSNeuron", {"aws.amazon.com/neuron": "1"}, [("n-AWSNeuron-0", 2, 0, 3, 0)]),
    ],
)
def test_capacity_becomes_devices_with_hamis_ids(
    word: str, capacity: dict[str, str], expected: list[tuple[str, int, int, int, int]]
) -> None:
    """Id, sharers, MiB, cores and NUMA node of each."""
    found = devices(word, **capacity)
    facts = [(each.uuid, each.count, each.memory_mib, each.cores, each.numa) for each in found]
    assert facts == expected
    assert [each.index for each in found] == list(range(len(found)))
    assert all(each.healthy and each.word == each.type == word for each in found)


@pytest.mark.parametrize("amount", ["0", "-1", "1.5", "much", ""])
def test_what_is_no_whole_amount_is_no_device(amount: str) -> None:
    """The capacity of a node is only text."""
    for name in ("metax-tech.com/gpu", "kunlunxin.com/xpu", "aws.amazon.com/neuron"):
        capacity = {name: amount, "aws.amazon.com/neuroncore": "4"}
        assert not devices("Metax-GPU", **capacity)
        assert not devices("kunlun", **capacity)
        assert not devices("AWSNeuron", **capacity)


def test_vendors_that_register_get_none() -> None:
    """Whatever they advertise; those that do not register all get some."""
    names = {word: backend.count_name for word, backend in BACKENDS.items()}
    capacity = dict.fromkeys(names.values(), "1") | MLU
    capacity |= {"mthreads.com/sgpu-core": "16", "mthreads.com/sgpu-memory": "96"}
    for word, backend in BACKENDS.items():
        registers = backend.register is not Register.CAPACITY
        assert bool(devices(word, **capacity)) != registers


@given(st.sampled_from(sorted(BACKENDS)), st.integers(0, 10**18), st.integers(0, 10**18))
def test_no_capacity_makes_more_than_a_node_can_have(word: str, count: int, parts: int) -> None:
    """A forged one costs neither time nor memory, and no number leaves HAMi's range."""
    names = {name for each in ALL_VENDORS.vendors for name in each.keys}
    capacity = dict.fromkeys(names, str(parts)) | {BACKENDS[word].count_name: str(count)}
    found = devices(word, **capacity)
    assert len(found) <= 1024
    assert all(0 <= each.memory_mib < 2**31 and 0 <= each.cores < 2**31 for each in found)
