"""With which configuration files a program runs, and whether they say something else by now.

A ConfigMap that is mounted changes under a running program: kubelet puts a link to the new files in
the place of the old one (kubernetes: pkg/volume/util/atomic_writer.go). A program that has read its
file says in its log and its metrics which one that was, and when another is in its place.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

log = structlog.get_logger(__name__)

_DIGITS: Final = 12
_LOOK_S: Final = 30.0
_JOIN_S: Final = 1.0


def sha256_of(content: bytes) -> str:
    """Return the digits by which *content* is told from others in logs and metrics."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """What is said of one file."""

    name: str
    """That of its flag, such as `device-config`."""
    sha256: str | None
    """Of what is in use; `None` where nothing of it is."""
    changed: bool
    """Whether what is on the disk is not what is in use."""


class FileInUse:
    """A file that is read once, at a start; may be used by several threads."""

    def __init__(self, name: str, path: Path, content: bytes) -> None:
        """Take note that *content* was read from *path*, and log it."""
        self._name, self._path = name, path
        self._sha256 = sha256_of(content)
        self._lock = threading.Lock()
        self._on_disk = self._sha256
        log.info("configuration file read", file=name, path=str(path), sha256=self._sha256)

    def look(self) -> None:
        """Look what is on the disk; another one is logged, once."""
        try:
            found = sha256_of(self._path.read_bytes())
        except OSError as error:
            found = str(error.strerror)
        with self._lock:
            before, self._on_disk = self._on_disk, found
        if found not in {before, self._sha256}:
            log.warning(
                "configuration file changed",
                file=self._name,
                in_use=self._sha256,
                on_disk=found,
                remedy="restart the pod to have the new one used",
            )

    def state(self) -> FileState:
        """Return what is to be said of it now."""
        self.look()
        return FileState(
            name=self._name, sha256=self._sha256, changed=self._on_disk != self._sha256
        )


class FileWatch:
    """Looks at *files* now and then, also where nobody reads metrics; `start`, then `stop` it."""

    def __init__(self, files: Iterable[FileInUse], *, look_s: float = _LOOK_S) -> None:
        self._files, self._look_s = tuple(files), look_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="configuration files", daemon=True)

    def start(self) -> None:
        """Begin to look, if there is anything to look at."""
        if self._files:
            self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._stopping.wait(self._look_s):
            for each in self._files:
                each.look()


class FileFigures(Collector):
    """Says at each scrape which files are in use."""

    def __init__(self, states: Callable[[], Iterable[FileState]]) -> None:
        self._states = states

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges as of now."""
        info = GaugeMetricFamily(
            "gpuslice_config_info",
            "Configuration files that are in use, by the first digits of their hash.",
            labels=["file", "sha256"],
        )
        changed = GaugeMetricFamily(
            "gpuslice_config_changed",
            "Whether a configuration file on the disk is another one than that in use.",
            labels=["file"],
        )
        for each in self._states():
            if each.sha256 is not None:
                info.add_metric([each.name, each.sha256], 1)
            changed.add_metric([each.name], float(each.changed))
        yield info
        yield changed
