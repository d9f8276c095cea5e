"""Writes the three numbers of a region by which a monitor steers the library.

Processes of the container read and write the same four bytes without a lock, so each store is one
instruction; and it must not end the agent when the container cuts its region in that moment
(SIGBUS). The kernel does both: the operation of a futex changes four bytes in one instruction, and
where there is no page any more it answers EFAULT (futex(2), FUTEX_WAKE_OP). Nobody is woken.
"""

import ctypes
import errno
import mmap
import os
import platform
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from cdi.durable import open_existing
from hami.monitor.regions.file import RegionFile, UnfitError
from hami.monitor.regions.layouts import Layout
from hami.monitor.regions.recognition import recognize

_FUTEX: Final = {"x86_64": 202, "aarch64": 98}
_WAKE_OP_PRIVATE: Final = 5 | 128
_TWELVE_BITS: Final = 0xFFF
STORED_MIN: Final = -2048
STORED_MAX: Final = 2047
"""A futex' operation holds a number of twelve bits."""


class FeedbackFields:
    """The three numbers of one region, open to be read and written."""

    def __init__(self, file: RegionFile, layout: Layout, view: mmap.mmap, origin: int) -> None:
        self._file, self._layout = file, layout
        self._view, self._origin = view, origin

    @property
    def recent_kernel(self) -> int:
        """Above 0: kernels were launched lately; below: launches wait."""
        return self._file.int32(self._layout.recent_kernel)

    @property
    def utilization_switch(self) -> int:
        """1: the core limit holds; 0: it is lifted."""
        return self._file.int32(self._layout.utilization_switch)

    @property
    def priority(self) -> int:
        """0 is high."""
        return self._file.int32(self._layout.priority)

    def set_recent_kernel(self, value: int) -> None:
        """Store how much longer kernels count as lately launched, or -1 to have launches wait."""
        self._store(self._layout.recent_kernel, value)

    def set_utilization_switch(self, value: int) -> None:
        """Store whether the core limit holds."""
        self._store(self._layout.utilization_switch, value)

    def _store(self, offset: int, value: int) -> None:
        word = ctypes.c_int32.from_buffer(self._view, offset - self._origin)
        try:
            _store(ctypes.addressof(word), value)
        finally:
            # Else the mapping cannot be closed.
            del word


@contextmanager
def feedback_fields(path: Path) -> Iterator[FeedbackFields]:
    """Open the region at *path* to steer it; `UnfitError` or OSError if that cannot be done.

    A region that is open is not reset, so what is stored goes to those whose region was read.
    """
    # Without O_NONBLOCK it would wait for whoever resets it.
    descriptor = open_existing(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path))
        file = RegionFile(descriptor, status)
        layout = recognize(file)
        origin = layout.process_count // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        with mmap.mmap(descriptor, layout.size - origin, offset=origin) as view:
            yield FeedbackFields(file, layout, view, origin)
    except ValueError as error:
        # It was cut after it had been looked at.
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT), str(path)) from error
    finally:
        os.close(descriptor)


def release(path: Path) -> bool:
    """Leave the region as it is without a monitor; tell whether launches were waiting.

    The core limit holds again and nobody waits. A region that cannot be read holds nobody.
    """
    try:
        with feedback_fields(path) as fields:
            was_blocked = fields.recent_kernel < 0
            if was_blocked:
                fields.set_recent_kernel(0)
            if fields.utilization_switch == 0:
                fields.set_utilization_switch(1)
            return was_blocked
    except (UnfitError, BlockingIOError, FileNotFoundError):
        # Nobody uses one that is being reset.
        return False


def _store(address: int, value: int) -> None:
    """Store four bytes in one instruction; OSError if there is no page to take them."""
    if not STORED_MIN <= value <= STORED_MAX:
        message = f"{value} is not stored"
        raise ValueError(message)
    number = _FUTEX.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    own = ctypes.c_int32(0)
    # The operation "set" with *value*, and a comparison whose result matters to nobody.
    operation = ctypes.c_uint32((value & _TWELVE_BITS) << 12)
    result = _libc().syscall(
        ctypes.c_long(number),
        ctypes.byref(own),
        ctypes.c_int(_WAKE_OP_PRIVATE),
        ctypes.c_int(0),
        ctypes.c_long(0),
        ctypes.c_void_p(address),
        operation,
    )
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
