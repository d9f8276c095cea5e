"""Board profiles and GPU files: what may be written, and what follows from it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import boards, gpufile, hardware
from sim.gpufile import GpuFileError

PARTITIONABLE = [name for name in boards.names() if boards.board(name).mig]


def parsed(text: str) -> tuple[hardware.SimGpu, ...]:
    """Return the GPUs that *text* describes."""
    return hardware.gpus(gpufile.parse(text))


def test_the_promised_boards_exist() -> None:
    """The boards that examples and tests rely on are there and valid."""
    assert boards.names() == (
        *("a10", "a100-40gb", "a100-80gb", "a30", "gb10"),
        *("h100-80gb", "h200-141gb", "l4", "t4"),
    )
    assert PARTITIONABLE == ["a100-40gb", "a100-80gb", "a30", "h100-80gb", "h200-141gb"]
    assert boards.board("gb10").memory is None


@pytest.mark.parametrize("name", PARTITIONABLE)
def test_a_boards_profiles_fit_into_its_memory(name: str) -> None:
    """As many instances as the table allows fit beside each other, in memory and in slices."""
    board = boards.board(name)
    assert board.mig is not None
    assert board.memory is not None
    enums = [profile.enum for profile in board.mig.profiles]
    assert len(set(enums)) == len(enums)
    for profile in board.mig.profiles:
        assert profile.memory_mib * profile.instances <= board.memory.total_mib
        layout = [profile.name] * profile.instances
        (gpu,) = parsed(f"gpus: [{{profile: {name}, mig: {layout}}}]")
        assert len(gpu.mig) == profile.instances
        with pytest.raises(GpuFileError, match="no room"):
            parsed(f"gpus: [{{profile: {name}, mig: {[*layout, profile.name]}}}]")


@given(board=st.sampled_from(PARTITIONABLE), data=st.data())
def test_partitions_never_overlap(board: str, data: st.DataObject) -> None:
    """Whatever layout is asked for, it is refused or placed without overlap, ids unique."""
    table = boards.board(board).mig
    assert table is not None
    names = [profile.name for profile in table.profiles]
    layout = data.draw(st.lists(st.sampled_from(names), max_size=8))
    try:
        (gpu,) = parsed(f"gpus: [{{profile: {board}, mig: {layout}}}]")
    except GpuFileError:
        assert len(layout) > 1
        return
    assert sorted(instance.profile.name for instance in gpu.mig) == sorted(layout)
    slices = [
        instance.start + offset
        for instance in gpu.mig
        for offset in range(instance.profile.memory_slices)
    ]
    assert len(set(slices)) == len(slices)
    assert set(slices) <= set(range(table.memory_slices))
    assert len({instance.gpu_instance_id for instance in gpu.mig}) == len(gpu.mig)
    assert len({instance.uuid for instance in gpu.mig}) == len(gpu.mig)


def test_a_layout_is_found_in_any_order() -> None:
    """A small partition written first does not take the only place of a large one."""
    (gpu,) = parsed("gpus: [{profile: a100-40gb, mig: [1g.5gb, 2g.10gb, 4g.20gb]}]")
    assert {instance.profile.name: instance.start for instance in gpu.mig} == {
        "4g.20gb": 0,
        "2g.10gb": 4,
        "1g.5gb": 6,
    }


def test_a_partition_can_be_pinned() -> None:
    """A start that is written is kept."""
    text = "gpus: [{profile: a30, mig: [{profile: 1g.6gb, start: 3, uuid: MIG-x}]}]"
    (instance,) = parsed(text)[0].mig
    assert (instance.start, instance.uuid, instance.gpu_instance_id) == (3, "MIG-x", 6)


def test_identity_follows_from_node_and_index() -> None:
    """UUIDs are the same each time, differ between nodes, and survive a change of the board."""
    first = parsed("{node: a, gpus: [{profile: t4, count: 2}]}")
    again = parsed("{node: a, gpus: [{profile: l4, count: 2}]}")
    other = parsed("{node: b, gpus: [{profile: t4, count: 2}]}")
    assert [gpu.uuid for gpu in first] == [gpu.uuid for gpu in again]
    assert len({gpu.uuid for gpu in (*first, *other)}) == 4


def test_two_hundred_gpus_have_places_of_their_own() -> None:
    """A count fills buses and domains without giving one place twice."""
    gpus = parsed("gpus: [{profile: t4, count: 600}]")
    places = [gpu.pci_bus_id for gpu in gpus]
    assert len(set(places)) == 600
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpus: [{profile: t5}]", "gpus.0.profile: .*unknown profile `t5`; known: a10, "),
        ("gpus: [{profile: t4, memory: 3}]", "gpus.0.memory: Extra inputs"),
        ("gpus: [{profile: t4, memory_mib: '3'}]", "gpus.0.memory_mib: .*valid integer"),
        ("gpus: [{profile: t4, mig: []}]", "`t4` cannot be partitioned"),
        ("gpus: [{profile: a30, mig: [1g.5gb]}]", "no MIG profile `1g.5gb`; it has 1g.6gb, "),
        ("gpus: [{profile: t4, errors: {nvmlDeviceGetName: LOST}}]", "errors.nvmlDeviceGetName"),
        ("gpus: [{profile: t4, errors: {getName: GPU_IS_LOST}}]", "errors.getName"),
        ("gpus: [{profile: t4, uuid: GPU-a}, {profile: l4, uuid: GPU-a}]", "uuid `GPU-a`"),
        ("gpus: [{profile: t4, minor: 1}, {profile: l4}]", "minor `1`"),
        ("gpus: [{profile: t4, count: 2, minor: 1}]", "`count` above 1 excludes"),
        ("gpus: [{profile: t4, pci: '3b:00.0'}]", "gpus.0.pci: "),
        ("node: a", "gpus: Field required"),
        ("[]", "document: "),
        ("gpus: [", "not YAML"),
    ],
)
def test_a_wrong_file_says_where(text: str, message: str) -> None:
    """Each mistake is named with its field."""
    with pytest.raises(GpuFileError, match=message):
        parsed(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file is an error of the same kind."""
    with pytest.raises(GpuFileError, match=r"absent\.yaml: cannot be read"):
        gpufile.load(tmp_path / "absent.yaml")


def test_an_unknown_board_has_no_name() -> None:
    """A path is no way to another file."""
    with pytest.raises(KeyError):
        boards.board("../boards")
