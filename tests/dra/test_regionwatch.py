"""Who lets go of a region is noticed: the kernel's own notices, of real files."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cdi.region import create_region
from dra.regionwatch import RegionWatch
from tests.patience import eventually
from tests.region_user import Use, using


@pytest.fixture
def watch() -> Iterator[RegionWatch]:
    """Make a watch that ends with the test."""
    made = RegionWatch()
    yield made
    made.close()


def a_file(path: Path) -> Path:
    """Make a small file and return its path."""
    path.write_bytes(b"x")
    return path


def write(path: Path) -> None:
    """Open the file for writing, and close it."""
    with path.open("r+b"):
        pass


def test_end_of_a_process_that_maps_the_file_is_noticed(watch: RegionWatch, tmp_path: Path) -> None:
    """It need not have closed anything itself, and its descriptor is long gone."""
    path = create_region(tmp_path)
    assert watch.follow({"a": path}) == {"a"}
    with using(path, Use.MAPS) as user:
        assert watch.let_go() == set()
        user.kill()
        assert eventually(watch.let_go) == {"a"}


def test_readers_are_not_noticed(watch: RegionWatch, tmp_path: Path) -> None:
    """Whoever looks whether a region is used must not wake himself by that."""
    path = a_file(tmp_path / "a")
    watch.follow({"a": path})
    path.read_bytes()
    assert watch.let_go() == set()
    write(path)
    assert watch.let_go() == {"a"}


def test_each_file_is_followed_by_its_claim(watch: RegionWatch, tmp_path: Path) -> None:
    """Known files are not new again; those that are not named any more are forgotten."""
    first, second = a_file(tmp_path / "a"), a_file(tmp_path / "b")
    assert watch.follow({"a": first}) == {"a"}
    assert watch.follow({"a": first, "b": second}) == {"b"}
    write(second)
    assert watch.let_go() == {"b"}
    assert watch.follow({"b": second}) == set()
    write(first)
    write(second)
    assert watch.let_go() == {"b"}


def test_file_that_was_made_anew_is_another(watch: RegionWatch, tmp_path: Path) -> None:
    """It is watched in place of the one that had its name."""
    path = a_file(tmp_path / "a")
    watch.follow({"a": path})
    with path.open("r+b"):
        path.unlink()
        a_file(path)
        assert watch.follow({"a": path}) == {"a"}
    assert watch.let_go() == set()
    write(path)
    assert watch.let_go() == {"a"}


def test_file_that_is_gone_is_no_obstacle(watch: RegionWatch, tmp_path: Path) -> None:
    """Neither before it is watched nor while it is."""
    path = a_file(tmp_path / "a")
    missing = tmp_path / "missing"
    with capture_logs() as logs:
        assert watch.follow({"a": path, "b": missing}) == {"a"}
        path.unlink()
        watch.let_go()
        assert watch.follow({"a": path, "b": missing}) == set()
    assert not logs


def test_lost_notices_count_for_every_file(watch: RegionWatch, tmp_path: Path) -> None:
    """When there were more than the kernel keeps, any file may be meant."""
    paths = {name: a_file(tmp_path / name) for name in "abc"}
    watch.follow(paths)
    kept = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for _ in range(kept // 2 + 1):
        # In turn, for the same notice twice in a row is one.
        write(paths["a"])
        write(paths["b"])
    assert watch.let_go() == {"a", "b", "c"}
    assert watch.let_go() == set()


_WITHOUT_ROOM = """
import sys
from pathlib import Path
from dra.regionwatch import RegionWatch
if sys.argv[2] == "instances":
    import resource
    RegionWatch().close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
watch = RegionWatch()
for _ in range(2):
    print(sorted(watch.follow({"a": Path(sys.argv[1])})), sorted(watch.let_go()))
print(watch.fileno() is None)
watch.close()
"""


def test_without_instances_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    """It is said once, and nothing fails."""
    said = subprocess.check_output(  # noqa: S603 - our own program
        [sys.executable, "-c", _WITHOUT_ROOM, str(a_file(tmp_path / "a")), "instances"], text=True
    )
    assert said.splitlines()[-3:] == ["[] []", "[] []", "True"]
    assert said.count("regions not watched") == 1
    assert "raise fs.inotify.max_user_watches" in said


def test_without_watches_nothing_is_followed(tmp_path: Path) -> None:
    """A user namespace has limits of its own; the machine's are left alone."""
    no_watches = 'echo 0 >/proc/sys/user/max_inotify_watches && exec "$@"'
    words = ["unshare", "--user", "--map-root-user", "sh", "-c", no_watches, "-", sys.executable]
    done = subprocess.run(  # noqa: S603 - our own program
        [*words, "-c", _WITHOUT_ROOM, str(a_file(tmp_path / "a")), "watches"],
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        pytest.skip(f"no user namespace can be made: {done.stderr}")
    assert done.stdout.splitlines()[-3:] == ["[] []", "[] []", "False"]
    assert done.stdout.count("regions not watched") == 1
