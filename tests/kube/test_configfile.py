"""Which configuration file a program runs with."""

import hashlib
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from kube.configfile import FileFigures, FileInUse, FileState, FileWatch, sha256_of
from tests.configmaps import Mount
from tests.patience import eventually

CHANGED = "configuration file changed"


def in_use(mount: Mount, text: str = "a: 1\n") -> FileInUse:
    """Return a file that was read when it said *text*."""
    mount.write(text)
    return FileInUse("device-config", mount.path, mount.path.read_bytes())


def test_a_file_is_told_by_its_hash(tmp_path: Path) -> None:
    """Twelve digits of what `sha256sum` prints, in the log too."""
    with capture_logs() as logs:
        state = in_use(Mount(tmp_path)).state()
    digits = hashlib.sha256(b"a: 1\n").hexdigest()[:12]
    assert state == FileState(name="device-config", sha256=digits, changed=False)
    assert [(each["event"], each["sha256"]) for each in logs] == [
        ("configuration file read", digits)
    ]


def test_another_file_is_logged_once(tmp_path: Path) -> None:
    """With both hashes, and what to do; what is in use stays."""
    mount = Mount(tmp_path)
    file = in_use(mount)
    mount.write("a: 2\n")
    with capture_logs() as logs:
        states = {file.state() for _ in range(3)}
    assert states == {FileState(name="device-config", sha256=sha256_of(b"a: 1\n"), changed=True)}
    (told,) = [each for each in logs if each["event"] == CHANGED]
    assert (told["in_use"], told["on_disk"]) == (sha256_of(b"a: 1\n"), sha256_of(b"a: 2\n"))
    assert "restart" in told["remedy"]


def test_the_same_text_is_no_change(tmp_path: Path) -> None:
    """Kubelet writes all files of a ConfigMap anew when one changes."""
    mount = Mount(tmp_path)
    file = in_use(mount)
    with capture_logs() as logs:
        mount.write("a: 1\n")
        assert not file.state().changed
    assert logs == []


def test_a_change_that_is_taken_back_is_over(tmp_path: Path) -> None:
    """Nothing has to be restarted any more; another change is told again."""
    mount = Mount(tmp_path)
    file = in_use(mount)
    with capture_logs() as logs:
        seen = []
        for text in ("a: 2\n", "a: 1\n", "a: 2\n"):
            mount.write(text)
            seen.append(file.state().changed)
    assert seen == [True, False, True]
    assert [each["event"] for each in logs] == [CHANGED] * 2


def test_a_file_that_is_gone_has_changed(tmp_path: Path) -> None:
    """A restart would not find it."""
    mount = Mount(tmp_path)
    file = in_use(mount)
    mount.write(None)
    with capture_logs() as logs:
        assert file.state().changed
    assert [each["on_disk"] for each in logs] == ["No such file or directory"]


def test_files_are_looked_at_without_a_reader_of_metrics(tmp_path: Path) -> None:
    """The log says of a change by itself."""
    mount = Mount(tmp_path)
    file = in_use(mount)
    watch = FileWatch([file], look_s=0.01)
    with capture_logs() as logs:
        watch.start()
        mount.write("a: 2\n")
        eventually(lambda: [each["event"] for each in logs] == [CHANGED])
        watch.stop()


def test_without_files_nothing_runs() -> None:
    """A program without configuration has no thread for it, and ends all the same."""
    watch = FileWatch([])
    watch.start()
    assert not watch._thread.is_alive()
    watch.stop()


def test_metrics_say_what_is_in_use(tmp_path: Path) -> None:
    """Of a file of which nothing is in use there is no hash."""
    mount = Mount(tmp_path)
    file = in_use(mount)
    refused = FileState(name="node-config", sha256=None, changed=True)
    registry = CollectorRegistry()
    registry.register(FileFigures(lambda: [file.state(), refused]))

    def lines() -> set[str]:
        text = generate_latest(registry).decode()
        return {line for line in text.splitlines() if not line.startswith("#")}

    sha256 = sha256_of(b"a: 1\n")
    info = f'gpuslice_config_info{{file="device-config",sha256="{sha256}"}} 1.0'
    node = 'gpuslice_config_changed{file="node-config"} 1.0'
    assert lines() == {info, node, 'gpuslice_config_changed{file="device-config"} 0.0'}
    mount.write("a: 2\n")
    assert lines() == {info, node, 'gpuslice_config_changed{file="device-config"} 1.0'}
