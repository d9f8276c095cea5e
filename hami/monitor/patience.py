"""Asks the driver in a thread of its own, and goes on without an answer.

A call of a driver in trouble may not return for minutes, or ever, and whoever waits for it gives no
feedback meanwhile: a container that waits would wait for the driver too. One call is out at a time.
"""

import threading
from typing import Final

from gpu.errors import GpuError, NvmlError
from gpu.usage import GpuUsage
from hami.monitor.sources import GpuReadings

WITHIN_S: Final = 2.0


class _Call:
    """One call, and what came of it."""

    def __init__(self, readings: GpuReadings) -> None:
        self._readings = readings
        self._done = threading.Event()
        self._answer: tuple[GpuUsage, ...] = ()
        self._error: GpuError | None = None
        threading.Thread(target=self._run, name="gpu-usage", daemon=True).start()

    def wait(self, within_s: float) -> bool:
        """Tell whether it has come back."""
        return self._done.wait(within_s)

    def answer(self) -> tuple[GpuUsage, ...]:
        """Return what it has said; `GpuError` if it failed."""
        if self._error is not None:
            raise self._error
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._readings.read()
        except GpuError as error:
            self._error = error
        finally:
            self._done.set()


class PatientReadings:
    """Reads as *readings* does, and fails where that takes longer than *within_s*."""

    def __init__(self, readings: GpuReadings, *, within_s: float = WITHIN_S) -> None:
        self._readings = readings
        self._within_s = within_s
        self._call: _Call | None = None

    def read(self) -> tuple[GpuUsage, ...]:
        """Return what each GPU does; `GpuError` if there is no answer in time."""
        is_late = self._call is not None
        call = self._call or _Call(self._readings)
        if not call.wait(0.0 if is_late else self._within_s):
            self._call = call
            raise NvmlError("TIMEOUT", "usage", f"no answer within {self._within_s:g} s")
        self._call = None
        # What was asked long ago says nothing about now.
        return self.read() if is_late else call.answer()
