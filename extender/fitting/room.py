"""How much a namespace may still take, as far as a decision needs to know."""

from typing import Final, Protocol


class QuotaRoom(Protocol):
    """What is left to one pod: the quota of its namespace less what other pods use."""

    def has_room(self, word: str, memory_mib: int, cores: int) -> bool:
        """Tell whether the pod may have these amounts, in total, of the vendor's devices."""
        ...


class _Endless:
    """No quota."""

    def has_room(self, word: str, memory_mib: int, cores: int) -> bool:
        """Tell that there is room."""
        del word, memory_mib, cores
        return True


ENDLESS: Final = _Endless()
