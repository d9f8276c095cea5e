"""Tests of the store of specs."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cdi.errors import StoreError
from cdi.store import SpecStore
from gpu.refusal import RefusedError
from tests.cdi.trees import CLAIM

OTHER = "ffffffff-7a0e-4d7e-9d0e-6a3c1f2b4d5e"
FILE = f"k8s.gpuslice.io-claim_{CLAIM}.json"


def test_written_specs_are_found(tmp_path: Path) -> None:
    """A spec is read back, listed, replaced and removed; removing it again is nothing."""
    store = SpecStore(tmp_path / "cdi")
    assert store.read(CLAIM) is None
    assert store.claim_uids() == set()
    store.write(CLAIM, b"one")
    store.write(CLAIM, b"two")
    store.write(OTHER, b"three")
    assert store.read(CLAIM) == b"two"
    assert store.claim_uids() == {CLAIM, OTHER}
    store.delete(CLAIM)
    store.delete(CLAIM)
    assert store.claim_uids() == {OTHER}


@pytest.mark.parametrize("durable", [False, True])
def test_files_are_readable_by_all(tmp_path: Path, *, durable: bool) -> None:
    """The file has the name of its kind and mode 0644, whatever the umask says."""
    before = os.umask(0o077)
    try:
        SpecStore(tmp_path, durable=durable).write(CLAIM, b"x")
    finally:
        os.umask(before)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o644


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    """Only files of our kind are listed, and only our temporary ones are swept."""
    ours = tmp_path / f".{FILE}.abc.tmp"
    foreign = ["nvidia.yaml", "k8s.gpu.nvidia.com-claim_x.json", ".nvidia.tmp", "spec.1.tmp"]
    for name in [*foreign, FILE, ours.name, "k8s.gpuslice.io-claim_a.b.json"]:
        (tmp_path / name).touch()
    store = SpecStore(tmp_path)
    assert store.claim_uids() == {CLAIM}
    assert store.sweep_temporary() == 1
    assert not ours.exists()
    assert all((tmp_path / name).exists() for name in foreign)
    assert SpecStore(tmp_path / "missing").sweep_temporary() == 0


KILLED = """
import os, sys
from pathlib import Path
from cdi.store import SpecStore
sys.addaudithook(lambda event, _: os._exit(9) if event == "os.rename" else None)
SpecStore(Path(sys.argv[1])).write(sys.argv[2], b"x")
"""


def test_killed_writes_are_swept(tmp_path: Path) -> None:
    """What a write leaves that is killed before its last step is hidden, no spec, and swept."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), CLAIM]
    assert subprocess.run(command, check=False).returncode == 9  # noqa: S603
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(f".{FILE}.")
    assert left.suffix not in {".json", ".yaml"}
    store = SpecStore(tmp_path)
    assert store.claim_uids() == set()
    assert store.sweep_temporary() == 1
    assert list(tmp_path.iterdir()) == []


def test_odd_uids_touch_no_file(tmp_path: Path) -> None:
    """A UID with a path in it is refused by every method."""
    store = SpecStore(tmp_path / "cdi")
    for act in (store.read, store.delete, lambda uid: store.write(uid, b"")):
        with pytest.raises(RefusedError):
            act("../../escaped")
    assert list(tmp_path.iterdir()) == []


def test_readers_never_see_a_part(tmp_path: Path) -> None:
    """While a file is replaced again and again, every read is one of the whole contents."""
    store = SpecStore(tmp_path)
    contents = {bytes([letter]) * 50_000 for letter in b"abcd"}
    store.write(CLAIM, b"a" * 50_000)

    def replace() -> None:
        for _ in range(50):
            for content in contents:
                store.write(CLAIM, content)

    writers = [threading.Thread(target=replace) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen = [store.read(CLAIM) for _ in range(200)]
    for writer in writers:
        writer.join()
    assert set(seen) <= contents
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    """Where the directory is a file, every method says so and names it."""
    path = tmp_path / "cdi"
    path.touch()
    store = SpecStore(path)
    for act in (
        store.prepare,
        store.claim_uids,
        lambda: store.write(CLAIM, b""),
        lambda: store.read(CLAIM),
        lambda: store.delete(CLAIM),
    ):
        with pytest.raises(StoreError, match=str(path)) as caught:
            act()
        assert caught.value.code == "NotADirectory"


def test_a_directory_in_the_way_leaves_no_temporary_file(tmp_path: Path) -> None:
    """A write that fails at its last step cleans up after itself."""
    (tmp_path / FILE).mkdir()
    with pytest.raises(StoreError):
        SpecStore(tmp_path).write(CLAIM, b"x")
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EROFS, "ReadOnly"),
        (errno.ENOSPC, "DiskFull"),
        (errno.EDQUOT, "DiskFull"),
        (errno.EACCES, "PermissionDenied"),
        (errno.EIO, "IoFailed"),
    ],
)
def test_codes_are_stable(number: int, code: str) -> None:
    """Each cause has a code that alerts can match, beside the system's own words."""
    error = StoreError(Path("/x"), OSError(number, os.strerror(number)))
    assert error.code == code
    assert str(error) == f"{code}: /x: {os.strerror(number)}"


MOUNTED = """
import subprocess, sys
from pathlib import Path
from cdi.errors import StoreError
from cdi.store import SpecStore
directory, options = Path(sys.argv[1]), sys.argv[2]
subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)
try:
    SpecStore(directory).write("a", bytes(100_000))
except StoreError as error:
    SpecStore(directory).delete("missing")
    print(error.code, len(list(directory.iterdir())))
"""


def mounts_allowed() -> bool:
    """Tell whether a mount namespace of one's own can be had here."""
    try:
        done = subprocess.run(
            ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],  # noqa: S607
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


@pytest.mark.parametrize(("options", "said"), [("size=16k", "DiskFull 0"), ("ro", "ReadOnly 0")])
def test_full_and_read_only_file_systems(tmp_path: Path, options: str, said: str) -> None:
    """A full CDI directory and a read-only one are told apart, nothing is left in either.

    What is not there counts as removed from them too.
    """
    if not mounts_allowed():
        pytest.skip("needs the right to mount")
    done = subprocess.run(  # noqa: S603
        ["unshare", "--mount", sys.executable, "-c", MOUNTED, str(tmp_path), options],  # noqa: S607
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.strip() == said
