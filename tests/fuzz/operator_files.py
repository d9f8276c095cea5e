"""The file in which the GPU Operator says where the driver is, up to the search for it."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from gpu import driver
from gpu.errors import DriverNotFoundError
from gpu.operatorfile import DIRECTORY, OperatorRoots, read
from tests.fuzz.mutation import TEXTS, spoiled_bytes
from tests.fuzz.running import expect

_VALID: Final = (
    b"IS_HOST_DRIVER=true\nNVIDIA_DRIVER_ROOT=/\nDRIVER_ROOT_CTR_PATH=/host\nNVIDIA_DEV_ROOT=/\n",
    b'NVIDIA_DRIVER_ROOT = "/run/nvidia/driver"\n\nNVIDIA_DEV_ROOT=/run/nvidia/driver\n',
    b"NVIDIA_DRIVER_ROOT=\r\nNVIDIA_DEV_ROOT=dev\r\n",
)


@dataclass(slots=True)
class OperatorFiles:
    """Files near those of the operator."""

    read: Callable[[Path], OperatorRoots | None] = field(default=read)
    name: str = "operator-file"
    weight: int = 6
    _made: Any = None

    def make(self, rng: Random) -> bytes:
        """Return a file."""
        text = rng.choice(_VALID)
        if rng.random() < 0.5:
            odd = rng.choice(
                (*TEXTS, "/a\x00b", "/" + "a" * 300, "/" + "a/" * 3000, "/..", "/../..")
            )
            lines = text.splitlines(keepends=True)
            place = rng.randrange(len(lines))
            key = lines[place].partition(b"=")[0]
            lines[place] = key + b"=" + odd.encode("utf-8", "surrogatepass") + b"\n"
            text = b"".join(lines)
        return spoiled_bytes(rng, text, most=2) if rng.random() < 0.5 else text

    def check(self, sample: bytes) -> bool:
        """Take absolute paths from it that stand in it, and search there without harm."""
        if self._made is None:
            self._made = tempfile.TemporaryDirectory(prefix="gpuslice-fuzz-")
            (Path(self._made.name) / DIRECTORY).mkdir(parents=True)
        root = Path(self._made.name)
        path = root / DIRECTORY / "driver-ready"
        path.write_bytes(sample)
        found = self.read(path)
        expect(self.read(path) == found, "another answer the second time")
        with suppress(DriverNotFoundError):
            driver.find(host_root=root)
        if found is None:
            return False
        for said in (found.driver_root, found.dev_root):
            expect(said is None or said.startswith("/"), f"a relative path: {said}")
            expect(said is None or said.encode() in sample, f"a path that nobody wrote: {said}")
        return found.driver_root is not None

    def close(self) -> None:
        """Remove the directory."""
        if self._made is not None:
            self._made.cleanup()
            self._made = None
