"""Regions are read as the library wrote them, whatever else is in the file."""

import os
from pathlib import Path
from typing import Any

import pytest

from hami.monitor.regions.layouts import (
    LAYOUTS,
    V0,
    V0_PLAIN,
    V1_1,
    V1_1_LONG,
    V1_1_SEQLOCK,
    V1_2,
    Layout,
)
from hami.monitor.regions.model import Region, RegionProcess, Trouble, Unreadable
from hami.monitor.regions.reading import read_region
from tests.hami.monitor.regionfiles import NAMES, content_of, placed, poke, said_of

LAYOUT_OF = {
    "old/8b7cd78": V0_PLAIN,
    "old/7a9c88b": V0,
    "old/9b46404": V1_1,
    "old/156b508": V1_1,
    "old/24a0f49": V1_1,
    "old/1988c5d": V1_1_SEQLOCK,
    "old/e200da2": V1_1_LONG,
}


def everyone(_pid: int, _host_pid: int) -> bool:
    """Take every process for alive."""
    return True


def read(path: Path) -> Region:
    """Read a region that can be read."""
    found = read_region(path, is_alive=everyone)
    assert isinstance(found, Region), found
    return found


def trouble(path: Path) -> Unreadable:
    """Read a region that cannot be read."""
    found = read_region(path, is_alive=everyone)
    assert isinstance(found, Unreadable), found
    return found


def slots_of(said: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the slots that count, with the old description made into the newer one's form."""
    if "procs" in said:
        return [each for each in said["procs"] if each["status"] and each["pid"]]
    slot = said["slot0"]
    used = {
        str(index): {
            "data": slot["data"][index],
            "total": slot["total"][index],
            "monitorused": slot["monitorused"][index],
        }
        for index in range(len(said["uuids"]))
    }
    return [{"pid": slot["pid"], "hostpid": slot["hostpid"], "used": used}]


@pytest.mark.parametrize("name", NAMES)
def test_each_layout_reads_as_the_library_wrote_it(name: str, tmp_path: Path) -> None:
    """All fields come out as a C program with the library's own header found them."""
    said = said_of(name)
    region = read(placed(name, tmp_path / "region.cache"))

    assert region.layout == LAYOUT_OF.get(name, V1_2)
    assert [each.uuid for each in region.devices] == said["uuids"]
    limits = said["limit_bytes"] if "limit_bytes" in said else said["limit"]
    for device in region.devices:
        assert device.memory_limit_bytes == (limits[device.index] or None)
        assert device.sm_limit == said["sm_limit"][device.index]
    assert region.priority == said["priority"]
    assert region.utilization_switch == said["utilization_switch"]
    assert region.recent_kernel == said["recent_kernel"]
    assert region.last_kernel_s == said.get("last_kernel_time")
    slots = slots_of(said)
    assert [(each.pid, each.host_pid) for each in region.processes] == [
        (each["pid"], each["hostpid"]) for each in slots
    ]
    for process, slot in zip(region.processes, slots, strict=True):
        assert_used(process, slot["used"])


def assert_used(process: RegionProcess, said: dict[str, dict[str, int]]) -> None:
    """Compare what a process uses with what a description says."""
    assert process.used is not None
    for index, use in enumerate(process.used):
        # What was never used is not described.
        told = said.get(str(index), {})
        assert use.total_bytes == told.get("total", 0)
        assert use.data_bytes == told.get("data", 0)
        assert use.monitor_used_bytes == told.get("monitorused", 0)
        assert use.context_bytes == told.get("context", 0)
        assert use.sm_util in {told.get("sm", 0), None}


@pytest.mark.parametrize("name", [each for each in NAMES if not each.startswith("old/")])
def test_use_is_the_sum_of_slots(name: str, tmp_path: Path) -> None:
    """What is expected of each file is what its slots say together."""
    region = read(placed(name, tmp_path / "region.cache"))
    expected = said_of(name)["expected_used_bytes_by_device"]
    assert {str(each.index): region.used_bytes(each.index) for each in region.devices} == {
        key: value for key, value in expected.items() if int(key) < len(region.devices)
    }


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_offsets_are_those_of_the_compiler(layout: Layout) -> None:
    """Every offset of the data is the one that a C program printed."""
    name = next((key for key, value in LAYOUT_OF.items() if value is layout), "old/b69b1ea")
    told = {key.split(".")[-1]: value for key, value in said_of(name)["offsets_and_sizes"].items()}
    assert layout.size == said_of(name)["struct_size"]
    assert (layout.uuids, layout.memory_limits) == (told["uuids"][0], told["limit"][0])
    assert (layout.core_limits, layout.slots) == (told["sm_limit"][0], told["procs"][0])
    assert layout.process_count == told["proc_num"][0]
    assert layout.utilization_switch == told["utilization_switch"][0]
    assert layout.recent_kernel == told["recent_kernel"][0]
    assert layout.priority == told["priority"][0]
    assert layout.last_kernel == told.get("last_kernel_time", [None])[0]
    slot = layout.slot
    assert (slot.used, slot.monitor_used) == (told["used"][0], told["monitorused"][0])
    assert (slot.status, slot.util) == (told["status"][0], told.get("device_util", [None])[0])
    if slot.seqlock is not None:
        assert slot.seqlock == told["seqlock"][0]


def test_the_dead_do_not_count(tmp_path: Path) -> None:
    """A process that was killed leaves its usage, and a monitor must not show it."""
    path = placed("c_two_procs_one_killed_one_exited", tmp_path / "region.cache")
    region = read_region(path, is_alive=lambda _pid, _host_pid: False)
    assert isinstance(region, Region)
    assert region.processes == ()
    assert region.used_bytes(0) == 0


def test_a_slot_is_asked_for_by_both_of_its_pids(tmp_path: Path) -> None:
    """Whether a process lives is a question of its pid in the container and on the host."""
    asked: list[tuple[int, int]] = []

    def note(pid: int, host_pid: int) -> bool:
        asked.append((pid, host_pid))
        return pid == 25842

    path = placed("b_two_gpus_live", tmp_path / "region.cache")
    region = read_region(path, is_alive=note)
    assert asked == [(25842, 125842)]
    assert isinstance(region, Region)
    assert region.utilization_percent(1) == 87


@pytest.mark.parametrize("size", [0, 3, 11, 1000, 804_000, 1_197_896 + 9, 2_008_951])
def test_a_file_of_another_size_says_so(size: int, tmp_path: Path) -> None:
    """A region that was cut is no region, and is not read beyond its end."""
    path = tmp_path / "region.cache"
    path.write_bytes(content_of("b_two_gpus_live")[:size])
    assert trouble(path).trouble is Trouble.UNREADABLE


def test_an_unused_region_is_no_error(tmp_path: Path) -> None:
    """One that the agent has just made says that nobody has used it, and stays as it is."""
    path = tmp_path / "region.cache"
    with path.open("wb") as file:
        file.truncate(2008953)
    assert trouble(path).trouble is Trouble.UNUSED
    assert path.stat().st_blocks == 0
    path.write_bytes(bytes(2008953))
    assert trouble(path).trouble is Trouble.UNUSED


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    """A container that may write its directory cannot send its reader elsewhere, nor stop it."""
    assert trouble(tmp_path / "absent").trouble is Trouble.ABSENT
    placed("b_two_gpus_live", tmp_path / "region.cache")
    (tmp_path / "link").symlink_to("region.cache")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    for name in ("link", "pipe", "directory"):
        assert trouble(tmp_path / name).trouble is Trouble.UNREADABLE


def test_a_region_that_is_cut_again_and_again_ends_nobody(tmp_path: Path) -> None:
    """A container may cut its region at any moment: the reader goes on."""
    path = placed("b_two_gpus_live", tmp_path / "region.cache")
    content = path.read_bytes()

    def cut(_pid: int, _host_pid: int) -> bool:
        os.truncate(path, 0)
        return True

    found = read_region(path, is_alive=cut)
    assert isinstance(found, Unreadable)
    path.write_bytes(content)
    assert isinstance(read_region(path, is_alive=everyone), Region)


@pytest.mark.parametrize(
    ("offset", "value", "size"),
    [
        (0, 19920719, 4),
        (4, 2, 4),
        (8, 3, 4),
        (V1_2.device_count, 17, 8),
        (V1_2.process_count, 1025, 4),
        (V1_2.process_count, -1, 4),
    ],
)
def test_numbers_that_fit_no_layout_are_refused(
    offset: int, value: int, size: int, tmp_path: Path
) -> None:
    """Another library's file is not guessed at."""
    path = placed("b_two_gpus_live", tmp_path / "region.cache")
    poke(path, offset, value, size)
    assert trouble(path).trouble is Trouble.UNREADABLE


@pytest.mark.parametrize("name", ["old/7a9c88b", "old/8b7cd78", "old/e200da2", "old/1988c5d"])
def test_a_file_made_for_another_library_is_recognized(name: str, tmp_path: Path) -> None:
    """The agent makes the file before it knows who will write it, and a longer one stays so."""
    path = placed(name, tmp_path / "region.cache")
    os.truncate(path, max(path.stat().st_size, 2008953) + (4096 if name == "old/e200da2" else 0))
    region = read(path)
    assert region.layout is LAYOUT_OF[name]
    assert region.used_bytes(1) == said_of(name)["slot0"]["total"][1]


def test_a_device_with_a_spoiled_name_is_left_out(tmp_path: Path) -> None:
    """One GPU whose UUID is no text does not hide the others, which keep their places."""
    path = placed("b_two_gpus_live", tmp_path / "region.cache")
    poke(path, V1_2.uuids, 0xFF, size=1)
    (device,) = read(path).devices
    assert (device.index, device.memory_limit_bytes) == (1, 2 * 1024**3)


def test_no_limit_is_none(tmp_path: Path) -> None:
    """A limit of nothing, or of all that a number holds, is no limit."""
    path = placed("b_two_gpus_live", tmp_path / "region.cache")
    poke(path, V1_2.memory_limits, 0, size=8)
    poke(path, V1_2.memory_limits + 8, 2**64 - 1, size=8)
    assert [each.memory_limit_bytes for each in read(path).devices] == [None, None]


def test_utilization_has_a_source_or_is_unknown(tmp_path: Path) -> None:
    """It is cut at 100, and unknown for a process that the library has not found on the host."""
    path = placed("b_two_gpus_live", tmp_path / "region.cache")
    slot = V1_2.slot
    assert slot.util is not None
    poke(path, V1_2.slots + slot.util + slot.util_size + 16, 130, size=8)
    assert read(path).utilization_percent(1) == 100
    poke(path, V1_2.slots + 4, 0)
    assert read(path).utilization_percent(1) is None
    old = placed("old/8b7cd78", tmp_path / "old.cache")
    assert read(old).utilization_percent(1) is None
