"""A delivery, or a sweep, that is killed between any two of its steps, and what comes after it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cdi.faults import FaultPoint
from tests.agent.crashing import OF_DELIVERY
from tests.cdi.test_library_kept import HOST, NEW, OLD, manifest, old, sha256_of, store_at

_PROGRAM = """
import os, signal, sys
from pathlib import Path
from cdi.faults import listen
from cdi.library import LibraryStore

def die(point):
    if point == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)

store = LibraryStore(Path(sys.argv[1]), "/host")
listen(die)
store.deliver(Path(sys.argv[2]).read_bytes(), None)
store.sweep([])
"""
_POINTS = [
    FaultPoint.LIBRARY_DIRECTORY_MADE,
    FaultPoint.LIBRARY_TEMPORARY_WRITTEN,
    FaultPoint.LIBRARY_COPIED,
    *OF_DELIVERY,
]


@pytest.mark.parametrize("point", _POINTS)
def test_a_killed_delivery_is_made_good_by_the_next(tmp_path: Path, point: FaultPoint) -> None:
    """The link leads to a whole library at any time, and in the end to the new one."""
    store = store_at(tmp_path)
    store.deliver(OLD, None)
    gone = store.keep(b"".join((OLD, b"gone")), None).sha256
    aged = (store.directory / gone).stat().st_mtime - 7200
    os.utime(store.directory / gone, (aged, aged))
    library = tmp_path / "libvgpu.so"
    library.write_bytes(NEW)
    command = [sys.executable, "-c", _PROGRAM, str(store.directory), str(library), point]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL  # noqa: S603
    assert (store.directory / "libvgpu.so").read_bytes() in {OLD, NEW}
    store.sweep_temporary()
    delivered = store.deliver(NEW, manifest(NEW))
    assert (store.directory / "libvgpu.so").read_bytes() == NEW
    old(store, OLD)
    if (store.directory / gone).exists():
        os.utime(store.directory / gone, (aged, aged))
    store.sweep([])
    assert {path.name for path in store.directory.iterdir()} == {"libvgpu.so", sha256_of(NEW)}
    assert delivered.host_library_path == f"{HOST}/{sha256_of(NEW)}/libvgpu.so"
    copy = store.directory / sha256_of(NEW)
    assert not [path for path in copy.iterdir() if path.name.startswith(".")]
