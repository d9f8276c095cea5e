"""Keeps the node configuration: reads its file when that changes, and keeps the last good one.

A ConfigMap that is mounted changes under a running agent: kubelet puts a link to the new files in
the place of the old one, so a changed file is another file. One with a mistake changes nothing;
what is wrong is told until it is mended. A file of the administrator's own (*external*) stands for
the one of the chart (*inline*) as a whole, as with HAMi's chart, which then mounts only the former.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import structlog

from gpu.refusal import Refusal
from hami.deviceconfig import NvidiaConfig
from hami.nodeconfig import (
    DEFAULT,
    EffectiveConfig,
    NodeConfigError,
    NodeConfigFile,
    effective,
)
from hami.nodeconfig_reading import parse
from kube.configfile import FileState, sha256_of

log = structlog.get_logger(__name__)

_BYTES_MAX: Final = 1024 * 1024
"""Of a ConfigMap (kubernetes: `pkg/apis/core/validation`)."""

_NAMES: Final = {"external": "external-node-config", "inline": "node-config"}
"""The flags that name the files."""

_Stamp = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFiles:
    """Where node configurations may be, and what holds where they say nothing."""

    external: Path | None = None
    inline: Path | None = None
    base: NvidiaConfig
    base_source: str = DEFAULT
    """Where *base* is from, in a word."""


class NodeConfigKeeper:
    """Holds the configuration of one node; all methods may be called from any thread."""

    def __init__(self, files: ConfigFiles, *, node_name: str, serves_dra: bool = False) -> None:
        """Prepare; `look` reads."""
        self._files, self._node_name, self._serves_dra = files, node_name, serves_dra
        self._lock = threading.Lock()
        self._labels: Mapping[str, str] | None = None
        self._stamp: _Stamp | None = None
        self._has_looked, self._has_good = False, False
        self._file: NodeConfigFile | None = None
        self._last: FileState | None = None
        """The one that was read last, be it in force or not."""
        self._in_use: FileState | None = None
        self._in_file: tuple[Refusal, ...] = ()
        self._in_values: tuple[Refusal, ...] = ()
        self._current: EffectiveConfig | None = None

    def current(self) -> EffectiveConfig | None:
        """Return what holds; `None` before the node's labels and a good file are known."""
        return self._current

    def findings(self) -> tuple[Refusal, ...]:
        """Return what is wrong with the configuration as it is now; empty while it is in force."""
        return self._in_file + self._in_values

    def files(self) -> tuple[FileState, ...]:
        """Return which file is in use, if any; it is another one on the disk if that is refused."""
        with self._lock:
            if self.findings():
                found = self._in_use or (self._last and replace(self._last, sha256=None))
                return () if found is None else (replace(found, changed=True),)
            return () if self._in_use is None else (self._in_use,)

    def set_labels(self, labels: Mapping[str, str]) -> bool:
        """Take the labels of the node; tell whether `current` has changed."""
        with self._lock:
            if self._labels == labels:
                return False
            self._labels = dict(labels)
            return self._apply()

    def look(self) -> bool:
        """Read the file if it is another one by now; tell whether `current` has changed."""
        with self._lock:
            source, path = self._chosen()
            stamp = _stamp(source, path)
            if self._has_looked and stamp == self._stamp:
                return False
            self._stamp, self._has_looked = stamp, True
            try:
                self._file = self._read(source, path)
            except NodeConfigError as error:
                self._in_file = _told(error)
                return False
            self._in_file, self._has_good = (), True
            return self._apply()

    def _chosen(self) -> tuple[str, Path | None]:
        for source, path in (("external", self._files.external), ("inline", self._files.inline)):
            if path is not None and path.exists():
                return source, path
        return DEFAULT, None

    def _read(self, source: str, path: Path | None) -> NodeConfigFile | None:
        self._last = None
        if path is None:
            return None
        self._last = FileState(name=_NAMES[source], sha256=None, changed=False)
        try:
            with path.open("rb") as file:
                content = file.read(_BYTES_MAX + 1)
            if len(content) > _BYTES_MAX:
                raise _unreadable(path, f"is larger than {_BYTES_MAX} bytes")
            text = content.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(path, str(error)) from error
        self._last = replace(self._last, sha256=sha256_of(content))
        log.info("configuration file read", file=self._last.name, sha256=self._last.sha256)
        return parse(text, source=source, serves_dra=self._serves_dra)

    def _apply(self) -> bool:
        """Find out what holds now."""
        if self._labels is None or not self._has_good:
            return False
        before = self._current
        try:
            found = effective(
                self._file,
                node_name=self._node_name,
                labels=self._labels,
                base=self._files.base,
                base_source=self._files.base_source,
            )
        except NodeConfigError as error:
            self._in_values = _told(error)
            return False
        self._in_values = ()
        self._current, self._in_use = found, self._last
        if found != before:
            log.info(
                "node configuration applied",
                entry=found.winner or "none",
                hash=found.hash,
                sources=dict(found.sources),
            )
        return found != before


def _told(error: NodeConfigError) -> tuple[Refusal, ...]:
    """Log what is wrong, and return it."""
    for finding in error.findings:
        log.error("node configuration refused", reason=str(finding))
    return error.findings


def _stamp(source: str, path: Path | None) -> _Stamp | None:
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return source, 0, 0, 0
    return status and (source, status.st_mtime_ns, status.st_size, status.st_ino)


def _unreadable(path: Path, why: str) -> NodeConfigError:
    refusal = Refusal(code="NotReadable", field="node configuration", value=str(path), limit=why)
    return NodeConfigError((refusal,))
