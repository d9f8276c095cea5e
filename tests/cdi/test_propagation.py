"""Whether the host sees what is mounted here."""

import subprocess
import sys
from pathlib import Path

import pytest

from cdi.propagation import is_seen_by_host
from cdi.region import REGION_NAME
from tests.agent import mounts

UID = "c1a10000-0000-4000-8000-000000000001"
DIRECTORY = Path("/var/lib/kubelet/plugins/gpuslice.io/regions")
PLUGIN = "/var/lib/kubelet/plugins/gpuslice.io"


def proc(folder: Path, *lines: str, own: str = "mnt:[2]", first: str = "mnt:[1]") -> Path:
    """Return a /proc in which a process has the mounts *lines*."""
    for name, space in (("self", own), ("1", first)):
        (folder / name / "ns").mkdir(parents=True)
        (folder / name / "ns/mnt").symlink_to(space)
    (folder / "self/mountinfo").write_text("".join(f"{line}\n" for line in lines))
    return folder


def mounted(point: str, optional: str = "") -> str:
    """Return how the kernel writes a mount at *point*."""
    return " ".join(filter(None, ["36 35 98:0 /", point, "rw", optional, "- ext4 /dev/a rw"]))


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        ([mounted("/"), mounted(PLUGIN, "shared:7")], True),
        ([mounted("/"), mounted(PLUGIN, "shared:7 master:3")], True),
        ([mounted("/", "shared:1"), mounted(PLUGIN)], False),
        ([mounted("/", "shared:1"), mounted(PLUGIN, "master:3")], False),
        ([mounted("/"), mounted("/var/lib/kubelet", "shared:7")], True),
        ([mounted(PLUGIN, "shared:7"), mounted("/")], True),
        ([mounted(PLUGIN, "shared:7"), mounted(PLUGIN)], False),
        ([mounted("/"), mounted(f"{PLUGIN}/other", "shared:7")], False),
        ([mounted("/"), mounted(f"{PLUGIN}.old", "shared:7")], False),
    ],
)
def test_the_mount_that_holds_a_directory_has_to_be_shared(
    tmp_path: Path, lines: list[str], *, seen: bool
) -> None:
    """A mount that only receives is not, and neither is one beside it."""
    assert is_seen_by_host(DIRECTORY, proc=proc(tmp_path, *lines)) is seen


def test_names_with_blanks_are_read(tmp_path: Path) -> None:
    """The kernel writes them by numbers."""
    lines = [mounted("/"), mounted(r"/a\040b\134c", "shared:7")]
    assert is_seen_by_host(Path(r"/a b\c/d"), proc=proc(tmp_path, *lines))


def test_the_hosts_own_processes_are_seen(tmp_path: Path) -> None:
    """Outside a container nothing has to be shared."""
    assert is_seen_by_host(DIRECTORY, proc=proc(tmp_path, mounted("/"), own="mnt:[1]"))


def test_where_nothing_tells_it_is_left_to_the_administrator(tmp_path: Path) -> None:
    """Without the host's processes, or the right to look at them."""
    assert is_seen_by_host(DIRECTORY, proc=tmp_path / "none")


_ENSURE = """
import sys
from pathlib import Path
from cdi.regionstore import RegionStore
store = RegionStore(Path(sys.argv[1]), sys.argv[1])
store.ensure(sys.argv[2])
print("bounded" if store.bounded else "unbounded")
"""
# The first process is the host's, with a directory that a container can be shown in all ways.
_HOST = """
mount --bind "$1" "$1" && mount --make-shared "$1" || exit 1
unshare --mount --propagation unchanged sh -c "$2" sh "$@" || exit 1
mountpoint -q "$1/$5" && echo mounted
test -f "$1/$5/$6" && echo found
"""
_CONTAINER = 'mount --make-"$7" "$1" && exec "$3" -c "$4" "$1" "$5"'


@pytest.mark.skipif(not mounts.may_mount(), reason="the right to mount is needed")
@pytest.mark.parametrize(
    ("propagation", "bounded"), [("rshared", True), ("rslave", False), ("rprivate", False)]
)
def test_a_region_is_there_for_the_host(tmp_path: Path, propagation: str, *, bounded: bool) -> None:
    """In whichever way a container has the directory; on storage of its own where both see that.

    The ways are Bidirectional, HostToContainer and None.
    """
    done = subprocess.run(  # noqa: S603 - our own script
        [
            *("unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", _HOST, "sh"),
            *(str(tmp_path), _CONTAINER, sys.executable, _ENSURE, UID, REGION_NAME, propagation),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    said = done.stdout.splitlines()
    told = [line for line in said if "the host would not see the mount" in line]
    assert [line for line in said if line not in told] == (
        ["bounded", "mounted", "found"] if bounded else ["unbounded", "found"]
    )
    assert len(told) == (not bounded)
