"""Asks the kernel whether a process uses a file, in whichever namespace, without looking for it.

Linux grants a write lease only while nobody else has the file open or mapped, and lets those who
want to open it wait until the lease is given back (fcntl(2), F_SETLEASE). It ends with its holder.
"""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdi.durable import open_existing
from cdi.errors import StoreError


@contextmanager
def leased(path: Path, access: int) -> Iterator[int]:
    """Open *path* and be the only one who has it open; BlockingIOError when that is not so."""
    # Without O_NONBLOCK it would wait here for another holder of a lease.
    handle = open_existing(path, access | os.O_NONBLOCK)
    try:
        # Whoever waits for the lease signals its holder; SIGIO, the default, would end it.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield handle
    finally:
        # Which gives the lease back.
        os.close(handle)


def in_use(path: Path) -> bool:
    """Tell whether a process has *path* open or mapped; StoreError if the kernel does not say.

    A file that is not there is used by nobody.
    """
    try:
        with leased(path, os.O_RDONLY):
            return False
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(path, error) from error
