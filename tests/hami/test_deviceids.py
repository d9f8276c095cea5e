"""Tests of the ids of parts of a GPU."""

import pytest

from hami.annotations import physical_uuid

UUID = "GPU-03f69c50-207a-2038-9b45-23cac89cb67a"


@pytest.mark.parametrize(
    ("device_id", "expected"),
    [
        (f"{UUID}-0", UUID),
        (f"{UUID}-10", UUID),
        (f"{UUID}::replica-1", UUID),
        (f"{UUID}::3", UUID),
        (f"{UUID}[1-0]", UUID),
        (UUID, UUID),
        ("GPU-03f69c50-207a-2038-9b45-23cac89cb123", "GPU-03f69c50-207a-2038-9b45-23cac89cb123"),
        ("MIG-03f69c50-207a-2038-9b45-23cac89cb67a-2", "MIG-03f69c50-207a-2038-9b45-23cac89cb67a"),
        ("node-1-cambricon-mlu-0", "node-1-cambricon-mlu-0"),
        ("G9[x]", "G9[x]"),
        ("", ""),
        ("::", "::"),
    ],
)
def test_the_gpu_of_a_part(device_id: str, expected: str) -> None:
    """What only looks like a part is a GPU of its own."""
    assert physical_uuid(device_id) == expected
