"""Links inside another root."""

from pathlib import Path

import pytest

from gpu.rooted import resolve


def test_absolute_links_start_at_the_root(tmp_path: Path) -> None:
    """An absolute target means the root given, in the middle of a path too."""
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("/usr/lib")
    (tmp_path / "usr/lib/a").symlink_to("/lib/b")
    assert resolve(tmp_path, "/lib/a") == tmp_path / "usr/lib/b"


def test_no_path_leaves_the_root(tmp_path: Path) -> None:
    """Going up ends at the root, in paths and in links."""
    (tmp_path / "out").symlink_to("../../../../etc")
    assert resolve(tmp_path, "../../etc/passwd") == tmp_path / "etc/passwd"
    assert resolve(tmp_path, "out/passwd") == tmp_path / "etc/passwd"


def test_the_root_itself_is_kept_as_given(tmp_path: Path) -> None:
    """The root may be a link of our own; it is not looked at."""
    assert resolve(tmp_path, "/") == tmp_path


def test_a_circle_is_an_error(tmp_path: Path) -> None:
    """Links that lead to each other end in an error, not in an endless loop."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="too many links"):
        resolve(tmp_path, "a")
