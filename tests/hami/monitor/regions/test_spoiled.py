"""Whatever is in a region, its reader answers."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami.monitor.regions.model import Region, Unreadable
from hami.monitor.regions.reading import read_region
from tests.hami.monitor.regionfiles import NAMES, placed


def everyone(_pid: int, _host_pid: int) -> bool:
    """Take every process for alive."""
    return True


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.sampled_from(NAMES),
    places=st.lists(
        st.tuples(
            st.one_of(
                st.integers(min_value=0, max_value=4000),
                st.integers(min_value=2008890, max_value=2008985),
                st.integers(min_value=804660, max_value=804680),
            ),
            st.binary(min_size=1, max_size=16),
        ),
        max_size=6,
    ),
    size=st.none() | st.integers(min_value=0, max_value=2_100_000),
)
def test_nothing_raises(
    name: str, places: list[tuple[int, bytes]], size: int | None, tmp_path: Path
) -> None:
    """Whatever a container writes, the reader answers with a region or with why there is none."""
    path = placed(name, tmp_path / "region.cache")
    with path.open("r+b") as file:
        for offset, raw in places:
            file.seek(offset)
            file.write(raw)
        if size is not None:
            file.truncate(size)
    found = read_region(path, is_alive=everyone)
    assert isinstance(found, (Region, Unreadable))
    if isinstance(found, Region):
        for device in found.devices:
            assert (found.utilization_percent(device.index) or 0) <= 100
            found.used_bytes(device.index)


@given(st.binary(max_size=8192))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_is_no_region(tmp_path: Path, content: bytes) -> None:
    """Bytes at random are not taken for a region."""
    path = tmp_path / "region.cache"
    path.write_bytes(content)
    assert isinstance(read_region(path, is_alive=everyone), Unreadable)
