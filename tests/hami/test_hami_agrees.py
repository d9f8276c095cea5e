"""What is read here is what HAMi's scheduler books, once admission has edited the container."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami import nvidia
from hami.containers import all_containers
from hami.deviceconfig import NvidiaConfig
from tests.hami.booking_model import as_int64, booked

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
