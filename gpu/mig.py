"""Names of MIG profiles, which NVML has no call for.

A MIG device's name ends in its profile: `NVIDIA A100-SXM4-40GB MIG 1g.5gb`; a compute instance
that takes part of its GPU instance puts its own slices in front: `MIG 1c.3g.20gb`. Where a
driver writes no such name the profile follows from the device's attributes: the number before
`gb` is the share of the memory in eighths of the board, not the usable memory.
"""

import re

_NAMED = re.compile(r"\bMIG ((?:\d+c\.)?\d+g\.\d+gb(?:[+-][a-z]+(?:\.[a-z]+)*)*)(?![\w.+-])")
_MIB_PER_GIB = 1024
_EIGHTHS = 8


def profile_in_name(device_name: str) -> str | None:
    """Return the profile that a MIG device's full name ends in, if it does."""
    match = _NAMED.search(device_name)
    return match.group(1) if match else None


def profile_from_slices(
    *, compute_slices: int, gpu_slices: int, memory_mib: int, board_memory_mib: int
) -> str:
    """Return the profile of a device with these attributes; suffixes such as `+me` stay out."""
    eighths = -(-memory_mib * _EIGHTHS // board_memory_mib)
    board_gib = -(-board_memory_mib // _MIB_PER_GIB)
    memory_gb = (2 * eighths * board_gib + _EIGHTHS) // (2 * _EIGHTHS)
    whole = f"{gpu_slices}g.{memory_gb}gb"
    return whole if compute_slices in {0, gpu_slices} else f"{compute_slices}c.{whole}"
