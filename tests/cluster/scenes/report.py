"""What a container says of itself: the script that it runs, and what its log means.

All of it is read by the container's own static busybox, so that nothing of what we wrote for the
container counts, but what the runtime made of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tests.cluster.images import BUSYBOX

IMAGE: Final = BUSYBOX

_SCRIPT: Final = """\
echo @env; env
echo @devices; find /dev -name 'nvidia*' -type c -exec stat -c '%n %t %T' {} +
echo @mounts; cat /proc/self/mountinfo
echo @preload; cat /etc/ld.so.preload 2>/dev/null
echo @region; stat -c '%s' /run/gpuslice/region.cache 2>/dev/null
echo @writable; for each in $(cut -d' ' -f5 /proc/self/mountinfo); do
  case $each in
    /run/gpuslice/*) ( : >>$each ) 2>/dev/null && echo $each ;;
    *nvidia*|*vgpu*|*/libcuda*|*preload) ( : >>$each ) 2>/dev/null && echo $each ;;
  esac
done
echo @end
"""
_STAY: Final = "trap 'exit 0' TERM; while true; do sleep 0.1; done\n"


def command(*, stays: bool = True) -> list[str]:
    """Return the command of a container that tells what it got, and *stays* or ends."""
    return ["sh", "-c", _SCRIPT + (_STAY if stays else "")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of mountinfo, as far as it concerns us."""

    source: str
    """The file system's device number and the file within it."""
    options: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerReport:
    """What one container got."""

    env: Mapping[str, str]
    devices: Mapping[str, tuple[int, int]]
    """Major and minor of NVIDIA's device nodes by path."""
    mounts: Mapping[str, Mount]
    """By path in the container."""
    preload: str
    """Text of /etc/ld.so.preload, empty without one."""
    region_bytes: int | None
    writable: frozenset[str]
    """Mounted files of the driver that can be opened for writing."""

    def limits(self) -> tuple[tuple[str, str], ...]:
        """Return memory and core limits in the order of their index."""
        found: list[tuple[str, str]] = []
        while (key := f"CUDA_DEVICE_MEMORY_LIMIT_{len(found)}") in self.env:
            found.append((self.env[key], self.env[f"CUDA_DEVICE_SM_LIMIT_{len(found)}"]))
        return tuple(found)

    def gpu_nodes(self) -> frozenset[str]:
        """Return the device nodes of whole GPUs."""
        return frozenset(
            path for path in self.devices if path.removeprefix("/dev/nvidia").isdigit()
        )


class ReportError(Exception):
    """A log is not, or not yet, a whole report."""


def read_report(log: str) -> ContainerReport:
    """Return what the container's *log* says; ReportError when it has not said all."""
    parts: dict[str, list[str]] = {}
    name = ""
    for line in log.splitlines():
        if line.startswith("@"):
            name = line[1:]
            parts[name] = []
        elif name:
            parts[name].append(line)
    if "end" not in parts:
        message = f"not a whole report: {log[-300:]!r}"
        raise ReportError(message)
    region = parts["region"]
    return ContainerReport(
        env=dict(line.split("=", 1) for line in parts["env"] if "=" in line),
        devices=dict(_devices(parts["devices"])),
        mounts=dict(_mounts(parts["mounts"])),
        preload="\n".join(parts["preload"]),
        region_bytes=int(region[0]) if region else None,
        writable=frozenset(parts["writable"]),
    )


def _devices(lines: list[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    for line in lines:
        path, major, minor = line.split()
        yield path, (int(major, 16), int(minor, 16))


def _mounts(lines: list[str]) -> Iterator[tuple[str, Mount]]:
    for line in lines:
        fields = line.split()
        yield (
            fields[4],
            Mount(source=f"{fields[2]} {fields[3]}", options=frozenset(fields[5].split(","))),
        )
