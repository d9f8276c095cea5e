"""Reads and writes the C arguments that the NVML binding passes.

The binding hands over ctypes objects: `byref` wrappers for results, buffers for text, opaque
pointers for handles. A handle here is a number that is no address; nobody follows it.
"""

import ctypes
from typing import Any


class NvmlFailureError(Exception):
    """Ends a call with an NVML error, named without its prefix."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def number(argument: Any) -> int:
    """Return the integer in *argument*, whether the caller wrapped it or not."""
    return int(getattr(argument, "value", argument))


def text(argument: Any) -> str:
    """Return the text that a `char *` argument points to."""
    return bytes(getattr(argument, "value", argument)).decode()


def target(argument: Any) -> Any:
    """Return the object behind a `byref`, or *argument* if it is no reference."""
    return getattr(argument, "_obj", argument)


def write(argument: Any, value: Any) -> None:
    """Store *value* through a pointer to a number."""
    target(argument).value = value


def write_text(buffer: Any, size: Any, value: str) -> None:
    """Store *value* with its NUL; too small a buffer fails as it does in NVML."""
    encoded = value.encode()
    if len(encoded) + 1 > number(size):
        raise NvmlFailureError("INSUFFICIENT_SIZE")
    buffer.value = encoded


def handle_number(handle: Any) -> int:
    """Return the number in an opaque handle."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def write_handle(argument: Any, value: int) -> None:
    """Store *value* as an opaque handle through a pointer to one."""
    ctypes.c_void_p.from_buffer(target(argument)).value = value


def check_version(structure: Any, version: int) -> None:
    """Fail as NVML does when the caller's structure is of another version."""
    if structure.version != version:
        raise NvmlFailureError("ARGUMENT_VERSION_MISMATCH")
