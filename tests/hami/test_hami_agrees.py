"""What is read here is what HAMi's own scheduler books, once admission has edited the container.

The model below is HAMi's `GenerateResourceRequests` for NVIDIA (HAMi v2.10:
`pkg/device/nvidia/device.go`) over Go's `Quantity.AsInt64`, written from their behaviour.
"""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami import nvidia
from hami.containers import all_containers
from hami.deviceconfig import NvidiaConfig

_SUFFIXES = {"": 1, **{suffix: 1000**power for power, suffix in enumerate("kMGTPE", 1)}}
_SUFFIXES |= {f"{suffix}i": 1024**power for power, suffix in enumerate("KMGTPE", 1)}
_MAX_INT32 = 2**31 - 1
_UNSET = 101

_CONFIGS = st.builds(
    NvidiaConfig,
    default_memory_mib=st.sampled_from([0, 0, 4096]),
    default_cores=st.sampled_from([0, 0, 25]),
    default_gpu_num=st.sampled_from([0, 1, 2]),
    memory_factor=st.sampled_from([0, 1, 1, 256, 1024]),
    resource_memory_name=st.sampled_from(["nvidia.com/gpumem", "nvidia.com/gpumem", ""]),
)
_LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "nvidia.com/gpu": st.sampled_from(["0", "1", "2", "1.0", "2000m", "1k", 1]),
        "nvidia.com/gpumem": st.sampled_from(
            ["0", "512", "5k", "2e3", "3Gi", "16Gi", "1.5Gi", "512.0", "0Gi", 3072, "1024Mi"]
        ),
        "nvidia.com/gpumem-percentage": st.sampled_from(["0", "1", "50", "100", "50.0"]),
        "nvidia.com/gpucores": st.sampled_from(["0", "30", "100", "1e2", "30.0"]),
        "nvidia.com/priority": st.sampled_from(["0", "1", "3"]),
    },
)


def as_int64(written: Any) -> int | None:
    """Return what Go's `AsInt64` gives; `None` for what it calls not ok."""
    match = re.fullmatch(r"([0-9]+)(?:e([0-9]+)|([kMGTPE]i?|Ki)?)", str(written))
    if match is None:
        return None
    digits, exponent, suffix = match.groups()
    scale: int = 10 ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    return int(digits) * scale


def booked(
    limits: Mapping[str, Any], requests: Mapping[str, Any], config: NvidiaConfig
) -> tuple[int, int, int, int] | None:
    """Return count, MiB, percent and cores as HAMi books them; `None` for an empty request."""
    said = {**requests, **limits}
    count = as_int64(said.get(config.resource_count_name))
    if not count:
        return None
    memory = 0
    if config.resource_memory_name in said:
        units, factor = as_int64(said[config.resource_memory_name]), max(1, config.memory_factor)
        if units is None or units > _MAX_INT32 // factor:
            return None
        memory = units * factor
    percent = as_int64(said.get(config.resource_memory_percentage_name)) or _UNSET
    if percent == _UNSET and memory == 0:
        memory = config.default_memory_mib
        percent = percent if memory else 100
    cores = as_int64(said.get(config.resource_core_name))
    effective = (memory, 0) if memory else (0, percent)
    return (count, *effective, config.default_cores if cores is None else cores)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16Gi"}, None),
        ({"nvidia.com/gpu": "1.0"}, None),
        ({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "4096"}, (2, 4096, 0, 0)),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}, (1, 0, 50, 0)),
        ({"nvidia.com/gpu": "1"}, (1, 0, 100, 0)),
    ],
)
def test_the_model(limits: dict[str, str], expected: tuple[int, ...] | None) -> None:
    """The model gives what HAMi's own tests say of it, empty requests too."""
    assert booked(limits, {}, NvidiaConfig()) == expected


@given(_LIMITS, _CONFIGS, st.booleans())
def test_the_edited_container_is_booked_as_read(
    limits: dict[str, Any],
    config: NvidiaConfig,
    requests_too: bool,  # noqa: FBT001  an example of hypothesis
) -> None:
    """HAMi's scheduler finds in the edited container exactly what was read in the original."""
    requests = limits if requests_too else {}
    resources = {"limits": limits, "requests": requests}
    pod = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    found = nvidia.read(all_containers(pod)[0], config)
    if found.reasons:
        return
    edited = {**limits, **found.edits.limits}, {**requests, **found.edits.requests}
    asked = found.request
    expected = asked and (
        asked.count,
        asked.memory_mib or 0,
        asked.memory_percent or 0,
        asked.cores,
    )
    assert booked(*edited, config) == expected
    assert found.edits.requests.keys() <= requests.keys()
    for key, number in edited[1].items():
        assert as_int64(number) == as_int64(edited[0][key])
