"""The record that an allocation becomes."""

from typing import Any

import pytest

from dra.allocation import AllocatedDevice, Allocation
from dra.options import Privileges
from dra.plan import Rules, plan, warnings
from dra.record import LimitOptions, PreparedClaim
from gpu.model import Gpu
from gpu.refusal import RefusedError
from tests.dra.builders import (
    BOOT_ID,
    LIBRARY,
    a_config,
    a_gpu,
    a_mig_gpu,
    a_share,
    a_view,
    a_whole,
    an_allocation,
)


def rules(*unlimited: str) -> Rules:
    """Return rules by which the namespaces *unlimited* may do without limits."""
    privileges = Privileges(unlimited_namespaces=frozenset(unlimited))
    return Rules(privileges=privileges, minimum_memory_mib=512)


def planned(allocation: Allocation, *gpus: Gpu, unlimited: str = "") -> PreparedClaim:
    """Return the record for *allocation* on a node with *gpus* and a library."""
    return plan(allocation, a_view(*gpus), rules(unlimited), boot_id=BOOT_ID)


def warning_codes(*devices: AllocatedDevice, **config: Any) -> list[str]:
    """Return the codes of what is said about a claim of *devices* with *config*."""
    allocation = an_allocation(*devices, configs=(a_config(**config),))
    record = planned(allocation, a_gpu(0), a_gpu(1))
    return [each.code for each in warnings(record, rules())]


def test_the_record_says_whose_claim_it_is() -> None:
    """All that later calls need is in it: they ask neither the server nor the inventory."""
    allocation = an_allocation(a_share(a_gpu()), pod_uids=frozenset({"pod-2", "pod-1"}))
    record = planned(allocation, a_gpu())
    assert (record.uid, record.namespace, record.name) == (allocation.uid, "team-a", "claim")
    assert (record.resource_version, record.allocation) == ("7", "d1")
    assert record.boot_id == BOOT_ID
    assert record.pod_uids == ("pod-1", "pod-2")
    assert [limit.memory_mib for limit in record.limits] == [1000]
    assert record.options == LimitOptions(library_sha256=LIBRARY.sha256)


def test_options_come_from_the_configuration() -> None:
    """Priority, core policy and log level are remembered with the claim."""
    config = a_config(priority=1, corePolicy="force", logLevel=3)
    record = planned(an_allocation(a_share(a_gpu()), configs=(config,)), a_gpu())
    assert record.options == LimitOptions(
        library_sha256=LIBRARY.sha256, priority=1, core_policy="force", log_level=3
    )


def test_devices_keep_the_order_of_the_results() -> None:
    """Answers to repeated calls are compared, so nothing is sorted."""
    allocation = an_allocation(
        a_share(a_gpu(1), request="b"), a_share(a_gpu(0), request="a"), digest="d"
    )
    record = planned(allocation, a_gpu(0), a_gpu(1))
    assert [each.request for each in record.devices] == ["b", "a"]
    assert [each.uuid for each in record.limits] == [a_gpu(0).uuid, a_gpu(1).uuid]


def test_a_share_without_library_is_refused() -> None:
    """Nothing would limit it; the reason says what is missing on the node."""
    view = a_view(a_gpu(), library=None)
    with pytest.raises(RefusedError, match="LibraryMissing") as caught:
        plan(an_allocation(a_share(a_gpu())), view, rules(), boot_id=BOOT_ID)
    assert "no HAMi-core library is configured" in str(caught.value)


def test_without_enforcement_no_library_is_needed() -> None:
    """Where the administrator allows it, the claim is recorded without limits."""
    view = a_view(a_gpu(), library=None)
    allocation = an_allocation(a_share(a_gpu()), configs=(a_config(enforcement="none"),))
    record = plan(allocation, view, rules("team-a"), boot_id=BOOT_ID)
    assert (record.limits, record.options) == ((), None)
    assert record.devices[0].memory_mib == 1000


def test_whole_devices_need_no_library() -> None:
    """A GPU and a partition are prepared on a node without HAMi-core."""
    mig = a_mig_gpu(1)
    view = a_view(a_gpu(0), mig, library=None)
    for device in (a_gpu(0), mig.mig_devices[0]):
        record = plan(an_allocation(a_whole(device)), view, rules(), boot_id=BOOT_ID)
        assert (record.limits, record.options) == ((), None)


def test_sixteen_limited_gpus_are_the_most() -> None:
    """HAMi-core overruns its own memory with more; whole GPUs may be as many as there are."""
    gpus = [a_gpu(number) for number in range(17)]
    sixteen = an_allocation(*(a_share(gpu) for gpu in gpus[:16]))
    assert len(planned(sixteen, *gpus).limits) == 16
    with pytest.raises(RefusedError, match=r"TooManyLimitedGpus: .*`17 GPUs`"):
        planned(an_allocation(*(a_share(gpu) for gpu in gpus)), *gpus)
    whole = planned(an_allocation(*(a_whole(gpu) for gpu in gpus)), *gpus)
    assert len(whole.devices) == 17


def test_an_allocation_without_devices_of_ours_is_an_empty_record() -> None:
    """Kubelet does not call for such claims, but it must not break anything."""
    record = planned(an_allocation(), a_gpu())
    assert (record.devices, record.limits) == ((), ())


def test_a_small_share_is_warned_about() -> None:
    """A CUDA context alone takes hundreds of MiB."""
    assert warning_codes(a_share(a_gpu(), "511Mi")) == ["ShareBelowMinimum"]
    assert warning_codes(a_share(a_gpu(), "512Mi")) == []


def test_shares_of_one_gpu_are_warned_about_by_their_sum() -> None:
    """Two small shares of one GPU are one limit."""
    assert (
        warning_codes(a_share(a_gpu(), "300Mi"), a_share(a_gpu(), "300Mi", share_id="other")) == []
    )


def test_priority_without_core_limit_is_warned_about() -> None:
    """HAMi-core orders only what has a core limit; one of several is enough."""
    assert warning_codes(a_share(a_gpu(), cores="0"), priority=1) == ["PriorityWithoutCores"]
    assert warning_codes(a_share(a_gpu(), cores="30"), priority=1) == []
    assert warning_codes(a_share(a_gpu(0), cores="30"), a_share(a_gpu(1)), priority=0) == []
    assert warning_codes(a_share(a_gpu(), cores="0")) == []
