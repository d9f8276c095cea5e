"""What the operator's file says, and what nobody can have meant."""

from pathlib import Path

import pytest

from gpu import driver
from gpu.errors import DriverNotFoundError
from gpu.operatorfile import DIRECTORY, OperatorRoots, read


def said(directory: Path, root: str) -> OperatorRoots | None:
    """Return what is read of a file that names *root*."""
    path = directory / DIRECTORY / "driver-ready"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"NVIDIA_DRIVER_ROOT={root}\n", encoding="utf-8")
    return read(path)


def test_an_absolute_path_is_taken(tmp_path: Path) -> None:
    """Quotes and blanks around it do not belong to it."""
    assert said(tmp_path, ' "/run/nvidia/driver" ') == OperatorRoots(
        driver_root="/run/nvidia/driver", dev_root=None
    )


@pytest.mark.parametrize("root", ["/a\0b", "/" + "a/" * 3000, "relative", ""], ids=lambda _: "")
def test_what_can_be_no_path_counts_as_not_said(tmp_path: Path, root: str) -> None:
    """To follow thousands of directories takes seconds, and a NUL ends a path."""
    assert said(tmp_path, root) == OperatorRoots(driver_root=None, dev_root=None)
    with pytest.raises(DriverNotFoundError):
        driver.find(host_root=tmp_path)
