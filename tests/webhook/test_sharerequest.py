"""The content of a claim is a value: strict, comparable, with one text."""

import pytest
from pydantic import ValidationError

from webhook.sharerequest import Devices, ShareRequest, canonical, to_json


def test_a_request_without_memory_is_for_whole_gpus() -> None:
    """Everything else is a part of one."""
    assert ShareRequest(cores=100).whole
    assert not ShareRequest(memory_mib=1, cores=0).whole
    assert not ShareRequest(memory_percent=1, sizes_mib=(1,), cores=0).whole


@pytest.mark.parametrize(
    ("devices", "gpus", "mig"),
    [(Devices.GPU, True, False), (Devices.MIG, False, True), (Devices.GPU_OR_MIG, True, True)],
)
def test_it_says_which_devices_are_good(devices: Devices, gpus: bool, mig: bool) -> None:  # noqa: FBT001
    """Each kind for itself."""
    request = ShareRequest(memory_mib=1, cores=0, devices=devices)
    assert (request.takes_gpus, request.takes_mig) == (gpus, mig)


def test_its_json_leaves_defaults_out() -> None:
    """What was chosen stands in it under the name that the annotation has."""
    request = ShareRequest(memory_mib=1, cores=0, count=2, count_is_distinct=False)
    assert to_json(request) == {
        "memoryMib": 1,
        "cores": 0,
        "count": 2,
        "countIsDistinct": False,
    }


@pytest.mark.parametrize(("cores", "is_part"), [(0, False), (30, True), (100, False)])
def test_only_a_share_is_without_enforcement(cores: int, *, is_part: bool) -> None:
    """A whole GPU has no limits that could be lifted, and its claim one text."""
    assert not ShareRequest(memory_mib=1, cores=cores, enforcement="none").whole
    if is_part:
        assert ShareRequest(cores=cores, enforcement="none").whole
    else:
        with pytest.raises(ValidationError, match="enforcement does not fit"):
            ShareRequest(cores=cores, enforcement="none")


def test_it_never_changes() -> None:
    """A value that was hashed must stay."""
    request = ShareRequest(memory_mib=1, cores=0)
    with pytest.raises(ValidationError, match="frozen"):
        request.count = 2  # type: ignore[misc]
    assert hash(request) == hash(ShareRequest(memory_mib=1, cores=0))


def test_a_text_has_no_second_form() -> None:
    """Keys sorted, no blanks, ASCII."""
    assert canonical({"b": [1, "é"], "a": {}}) == '{"a":{},"b":[1,"\\u00e9"]}'
