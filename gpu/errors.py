"""What can go wrong between this process and the GPUs of its node.

    GpuError
    ├── DriverNotFoundError        no directory holds the driver's libraries
    ├── StoppedError               this process ends, and asks nothing more
    └── NvmlError                  NVML refused a call that concerns the whole node
        ├── LibraryNotFoundError   the library is absent or cannot be loaded
        └── DriverNotLoadedError   the library is there, the kernel module is not

A call that concerns one GPU raises nothing: it becomes a `gpu.model.GpuFault`.
"""

from collections.abc import Sequence


class GpuError(Exception):
    """Anything that keeps this program from reading the GPUs of its node."""


class DriverNotFoundError(GpuError):
    """Names every place that was searched for the driver, as the host calls it."""

    def __init__(self, tried: Sequence[tuple[str, str]]) -> None:
        super().__init__(tuple(tried))
        self.tried = tuple(tried)
        """Pairs of a driver root and what was found wrong with it."""

    def __str__(self) -> str:
        places = "; ".join(f"{root}: {finding}" for root, finding in self.tried)
        return f"no NVIDIA driver (libnvidia-ml.so.1) found; tried {places}"


class StoppedError(GpuError):
    """The process is told to end: what was being read stays unread."""


class NvmlError(GpuError):
    """One failed NVML call with its error as a stable word, such as `NO_PERMISSION`."""

    def __init__(self, reason: str, call: str, detail: str = "") -> None:
        super().__init__(reason, call, detail)
        self.reason = reason
        self.call = call
        self.detail = detail

    def __str__(self) -> str:
        tail = f" ({self.detail})" if self.detail else ""
        return f"{self.call} failed: {self.reason}{tail}"


class LibraryNotFoundError(NvmlError):
    """`libnvidia-ml.so.1` is not where it was said to be, or is no usable library."""


class DriverNotLoadedError(NvmlError):
    """The kernel module is not loaded: wait for it, nothing else helps."""
