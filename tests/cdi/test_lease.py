"""Whether a file is in use is the kernel's to say."""

from pathlib import Path

import pytest

from cdi.errors import StoreError
from cdi.lease import in_use
from cdi.region import create_region
from tests.region_user import Use, using


@pytest.mark.parametrize("use", list(Use))
def test_file_is_in_use_while_a_process_has_it(tmp_path: Path, use: Use) -> None:
    """Open or mapped, to write or to read, and not a moment longer."""
    path = create_region(tmp_path)
    assert not in_use(path)
    with using(path, use) as user:
        assert in_use(path)
        user.kill()
        assert not in_use(path)


def test_file_that_is_not_there_is_in_nobodys_use(tmp_path: Path) -> None:
    """Somebody else may have removed it."""
    assert not in_use(tmp_path / "missing")


def test_what_the_kernel_does_not_say_is_an_error(tmp_path: Path) -> None:
    """A directory has no leases, and a link leads to somebody else's file."""
    with pytest.raises(StoreError):
        in_use(tmp_path)
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(StoreError):
        in_use(tmp_path / "link")
