"""A `libnvidia-ml.so` that answers what a plan says, below the real binding.

A plan is plain data: for the system, for each GPU and for each of its partitions an answer by
symbol, which is a list of values for the pointers of the call, or `{"code": n}` for a failure.
Values need not fit: a text fills a buffer of any size, with its NUL only where there is room, and
a number is cut to the width of its pointer, as in C. A symbol without an answer fills all its
pointers with one number of the plan.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import pynvml

from sim.nvml_memory import handle_number, number, target, write_handle

Answers = Mapping[str, Any]

_SUCCESS: Final = 0
_INVALID_ARGUMENT: Final = 2
_GPU_HANDLE: Final = 1
_MIG_HANDLE: Final = 1000


def as_int(value: Any) -> int:
    """Return *value* as the number that a careless driver would write for it."""
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        return int(value) if abs(value) < 2**70 else -1
    return len(value) if isinstance(value, str | bytes | list | dict) else 0


def as_bytes(value: Any) -> bytes:
    """Return *value* as the bytes that a careless driver would write for it."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else str(value)[:400].encode("utf-8", "surrogatepass")


def as_answers(value: Any) -> Answers:
    """Return *value* if it can be looked up in, else no answers."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> Sequence[Any]:
    """Return *value* if it is a list, else an empty one."""
    return value if isinstance(value, list) else ()


class Library:
    """Has every symbol, but those that the plan calls missing."""

    def __init__(self, plan: Answers) -> None:
        """Prepare the answers of *plan*."""
        self._system = as_answers(plan.get("system"))
        self._gpus = as_list(plan.get("gpus"))
        self._missing = frozenset(
            each for each in as_list(plan.get("missing")) if type(each) is str
        )
        self._other = as_int(plan.get("other", 0))

    def __getattr__(self, symbol: str) -> Callable[..., Any]:
        if symbol == "nvmlErrorString":
            return lambda code: f"error {code}".encode()
        if symbol.startswith("__") or symbol in self._missing:
            raise AttributeError(symbol)
        return lambda *arguments: self._called(symbol, arguments)

    def install(self) -> None:
        """Let the binding see this library."""
        pynvml.nvmlLib = self
        pynvml._nvmlGetFunctionPointer_cache.clear()

    def gpu(self, index: int) -> Answers:
        """Return the answers of the GPU at *index*."""
        return as_answers(self._gpus[index]) if index < len(self._gpus) else {}

    def count(self) -> int:
        """Return how many GPUs there are said to be."""
        said = self._system.get("nvmlDeviceGetCount_v2")
        values = as_list(said)
        return as_int(values[0]) % 2**32 if values else len(self._gpus)

    def _called(self, symbol: str, arguments: Sequence[Any]) -> int:
        if symbol.startswith(("nvmlInit", "nvmlShutdown")):
            return _code(self._system.get(symbol))
        if symbol == "nvmlDeviceGetCount_v2":
            target(arguments[0]).value = self.count()
            return _code(self._system.get(symbol))
        if not symbol.startswith("nvmlDevice"):
            return self._answered(self._system.get(symbol), arguments)
        return self._asked(symbol, arguments)

    def _asked(self, symbol: str, arguments: Sequence[Any]) -> int:
        if symbol == "nvmlDeviceGetHandleByIndex_v2":
            index = number(arguments[0])
            write_handle(arguments[1], _GPU_HANDLE + index)
            return _code(self.gpu(index).get(symbol))
        answers = self._answers_of(handle_number(arguments[0]))
        if answers is None:
            return _INVALID_ARGUMENT
        if symbol == "nvmlDeviceGetMigDeviceHandleByIndex":
            return self._partition(handle_number(arguments[0]), arguments, answers)
        return self._answered(answers.get(symbol), arguments[1:])

    def _answers_of(self, handle: int) -> Answers | None:
        if handle < _MIG_HANDLE:
            return self.gpu(handle - _GPU_HANDLE)
        gpu, slot = divmod(handle, _MIG_HANDLE)
        partitions = as_list(self.gpu(gpu - 1).get("mig"))
        return as_answers(partitions[slot]) if slot < len(partitions) else None

    def _partition(self, handle: int, arguments: Sequence[Any], answers: Answers) -> int:
        slot = number(arguments[1])
        if slot >= len(as_list(answers.get("mig"))) or slot >= _MIG_HANDLE:
            return cast("int", pynvml.NVML_ERROR_NOT_FOUND)
        write_handle(arguments[2], handle * _MIG_HANDLE + slot)
        return _code(as_answers(as_list(answers["mig"])[slot]).get("handle"))

    def _answered(self, answer: Any, arguments: Sequence[Any]) -> int:
        outputs = [each for each in map(target, arguments) if _is_output(each)]
        if isinstance(answer, dict):
            return _code(answer)
        values = [self._other] * len(outputs) if answer is None else as_list(answer)
        for output, value in zip(outputs, values, strict=False):
            _fill(output, value)
        return _SUCCESS


def _code(answer: Any) -> int:
    return as_int(answer.get("code", 0)) % 2**31 if isinstance(answer, dict) else _SUCCESS


def _is_output(argument: Any) -> bool:
    return isinstance(argument, ctypes.Array | ctypes.Structure) or (
        type(argument) in _WIDTHS or isinstance(argument, ctypes.c_int)
    )


_WIDTHS: Final = frozenset({ctypes.c_uint, ctypes.c_int, ctypes.c_ulonglong, ctypes.c_longlong})


def _fill(output: Any, value: Any) -> None:
    if isinstance(output, ctypes.Structure):
        fields = value if isinstance(value, dict) else {}
        for name, entry in fields.items():
            if hasattr(type(output), name):
                _set(output, name, entry)
        if not fields:
            noise = as_bytes(value)[: ctypes.sizeof(output)]
            ctypes.memmove(ctypes.addressof(output), noise, len(noise))
    elif isinstance(output, ctypes.Array) and issubclass(output._type_, ctypes.c_char):
        raw = as_bytes(value)[: len(output)]
        output.raw = raw.ljust(len(output), b"\x00")
    elif isinstance(output, ctypes.Array):
        for element in output:
            _fill(element, value)
    else:
        output.value = as_int(value)


def _set(structure: ctypes.Structure, name: str, value: Any) -> None:
    offset, size = getattr(type(structure), name).offset, getattr(type(structure), name).size
    is_text = isinstance(value, str | bytes)
    raw = as_bytes(value) if is_text else (as_int(value) % 2 ** (8 * size)).to_bytes(size, "little")
    raw = raw[:size].ljust(size, b"\x00")
    ctypes.memmove(ctypes.addressof(structure) + offset, raw, size)
