"""Tests of making MIG devices and destroying them."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpu.errors import NvmlError
from gpu.miginstances import (
    MadeInstance,
    Place,
    destroy,
    instances_of,
    make_compute_instance,
    make_gpu_instance,
    mig_uuid,
)
from gpu.model import GpuUuid
from gpu.nvml import Nvml
from tests.gpu.simulating import simulated

UPPER = Place(slices="3g", start=4, size=4)


@pytest.fixture
def session() -> Iterator[Nvml]:
    """Yield a session with an A100 on which MIG is on, beside one on which it is off."""
    text = "gpus: [{profile: a100-40gb, uuid: GPU-a, mig: []}, {profile: a100-40gb, uuid: GPU-b}]"
    with simulated(text), Nvml() as found:
        found.inventory()
        yield found


def gpu(session: Nvml, uuid: str = "GPU-a") -> Any:
    """Return the handle of a GPU."""
    return session.handles()[GpuUuid(uuid)]


def made(session: Nvml, place: Place) -> MadeInstance:
    """Make a MIG device."""
    identity = make_gpu_instance(session.call, gpu(session), place)
    compute = make_compute_instance(session.call, gpu(session), place, identity)
    return MadeInstance(
        place=place,
        gpu_instance_id=identity,
        mig_uuid=mig_uuid(session.call, gpu(session), identity, compute),
    )


def refused(session: Nvml, place: Place, uuid: str = "GPU-a") -> str:
    """Return why no instance is made."""
    with pytest.raises(NvmlError) as caught:
        make_gpu_instance(session.call, gpu(session, uuid), place)
    return caught.value.reason


def test_a_mig_device_lies_where_it_was_wanted(session: Nvml) -> None:
    """The inventory has it, with the numbers and the UUID that were told."""
    found = made(session, UPPER)
    (known,) = session.inventory().gpus[0].mig_devices
    assert (known.uuid, known.gpu_instance_id) == (found.mig_uuid, found.gpu_instance_id)
    assert (known.profile, known.compute_instance_id) == ("3g.20gb", 0)
    assert instances_of(session.call, gpu(session), "3g") == (found,)
    assert instances_of(session.call, gpu(session), "1g") == ()


def test_a_place_is_given_once(session: Nvml) -> None:
    """Neither the same place nor one that overlaps it can be had, others can."""
    made(session, UPPER)
    assert refused(session, UPPER) == "INSUFFICIENT_RESOURCES"
    assert refused(session, Place(slices="1g", start=6, size=1)) == "INSUFFICIENT_RESOURCES"
    made(session, Place(slices="1g", start=3, size=1))


def test_what_cannot_be_made(session: Nvml) -> None:
    """A place that the profile does not have, an unknown profile, and a GPU without MIG."""
    assert refused(session, Place(slices="3g", start=1, size=4)) == "INVALID_ARGUMENT"
    assert refused(session, Place(slices="5g", start=0, size=4)) == "INVALID_ARGUMENT"
    assert refused(session, UPPER, "GPU-b") == "NOT_SUPPORTED"


def test_destroyed_instances_are_gone(session: Nvml) -> None:
    """A new one at the same place has another UUID; to destroy twice is no error."""
    first = made(session, UPPER)
    destroy(session.call, gpu(session), first.gpu_instance_id)
    destroy(session.call, gpu(session), first.gpu_instance_id)
    assert session.inventory().gpus[0].mig_devices == ()
    second = made(session, UPPER)
    assert second.gpu_instance_id == first.gpu_instance_id
    assert second.mig_uuid != first.mig_uuid


def test_half_of_a_mig_device(session: Nvml) -> None:
    """A GPU instance alone is no device; it is found and can be destroyed."""
    identity = make_gpu_instance(session.call, gpu(session), UPPER)
    (found,) = instances_of(session.call, gpu(session), "3g")
    assert found == MadeInstance(place=UPPER, gpu_instance_id=identity, mig_uuid=None)
    assert session.inventory().gpus[0].mig_devices == ()
    destroy(session.call, gpu(session), identity)
    assert instances_of(session.call, gpu(session), "3g") == ()


def test_instances_in_use_stay() -> None:
    """The driver says so, and nothing is destroyed."""
    text = "gpus: [{profile: a100-40gb, uuid: GPU-a, mig: [3g.20gb]}]"
    with simulated(text), Nvml() as session:
        (known,) = session.inventory().gpus[0].mig_devices
        with pytest.raises(NvmlError, match="IN_USE"):
            destroy(session.call, gpu(session), known.gpu_instance_id)
        assert session.inventory().gpus[0].mig_devices == (known,)


def test_instances_outlive_a_session() -> None:
    """They are the GPU's: whoever opens the library next finds them."""
    with simulated("gpus: [{profile: a30, uuid: GPU-a, mig: []}]"):
        with Nvml() as session:
            session.inventory()
            found = made(session, Place(slices="1g", start=0, size=1))
        with Nvml() as session:
            (known,) = session.inventory().gpus[0].mig_devices
    assert known.uuid == found.mig_uuid
