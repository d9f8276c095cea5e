"""Tests of paths below a foreign root."""

from pathlib import Path

import pytest

from cdi.rooted import below, local, resolve_inside


@pytest.mark.parametrize(
    ("link", "target", "asked", "found"),
    [
        ("lib64", "usr/lib64", "/lib64/a", "/usr/lib64/a"),
        ("lib64", "/usr/lib64", "/lib64/a", "/usr/lib64/a"),
        ("x", "../../../../usr/lib64/a", "/x", "/usr/lib64/a"),
        ("usr/b", "lib64/./a", "/usr/b", "/usr/lib64/a"),
        ("usr/b", "/usr/missing", "/usr/b", None),
        ("loop", "loop", "/loop", None),
        ("x", "/", "/x/usr/lib64/a", "/usr/lib64/a"),
    ],
)
def test_links_end_inside_the_root(
    tmp_path: Path, link: str, target: str, asked: str, found: str | None
) -> None:
    """Absolute links and `..` are read as the root's own; loops and dead ends are missing."""
    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "usr/lib64/a").touch()
    (tmp_path / link).symlink_to(target)
    assert resolve_inside(tmp_path, asked) == found


def test_paths_change_their_view(tmp_path: Path) -> None:
    """A path below the root is joined to the host's root and to ours."""
    assert below("/", "/usr/a") == "/usr/a"
    assert below("/run/nvidia/driver", "/usr/a") == "/run/nvidia/driver/usr/a"
    assert local(tmp_path, "/usr/a") == tmp_path / "usr/a"
    assert resolve_inside(tmp_path, "/") == "/"
