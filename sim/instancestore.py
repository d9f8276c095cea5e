"""GPU instances that were made through the simulated library, kept beside the GPU file.

They are the GPU's and not a process's: whoever opens the library next finds them, until they are
destroyed or the file is removed, as a reboot would. What the GPU file itself says of partitions
stays as it says.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sim.hardware import MigInstance, SimGpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One instance; *uuid* is empty as long as it has no compute instance."""

    gpu: str
    profile: str
    start: int
    gpu_instance_id: int
    uuid: str = ""


class InstanceStore:
    """The file beside the GPU file at *path*."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f"{path.name}.instances")

    def read(self) -> tuple[Made, ...]:
        """Return all instances, in the order in which they were made."""
        try:
            return tuple(Made(**each) for each in json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            return ()

    def add(self, made: Made) -> None:
        """Keep a new instance."""
        self._write((*self.read(), made))

    def change(self, gpu: str, gpu_instance_id: int, *, uuid: str) -> None:
        """Give an instance a compute instance of *uuid*, or take it."""
        self._write(
            replace(each, uuid=uuid) if _is(each, gpu, gpu_instance_id) else each
            for each in self.read()
        )

    def remove(self, gpu: str, gpu_instance_id: int) -> None:
        """Forget an instance."""
        self._write(each for each in self.read() if not _is(each, gpu, gpu_instance_id))

    def _write(self, made: Iterable[Made]) -> None:
        text = json.dumps([asdict(each) for each in made])
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.path)


def with_made(gpu: SimGpu, made: tuple[Made, ...]) -> SimGpu:
    """Return *gpu* with its instances of *made*."""
    table = gpu.board.mig
    if table is None or gpu.entry.mig is None:
        return gpu
    full, bare = list(gpu.mig), list[MigInstance]()
    for each in made:
        profile = table.named(each.profile)
        if each.gpu != gpu.uuid or profile is None:
            continue
        instance = MigInstance(
            uuid=each.uuid,
            profile=profile,
            start=each.start,
            gpu_instance_id=each.gpu_instance_id,
        )
        (full if each.uuid else bare).append(instance)
    return replace(gpu, mig=tuple(full), bare=tuple(bare))


def _is(made: Made, gpu: str, gpu_instance_id: int) -> bool:
    return (made.gpu, made.gpu_instance_id) == (gpu, gpu_instance_id)
