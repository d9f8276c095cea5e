"""Tests of what decides that the image is built again."""

import tomllib
from pathlib import Path

import pytest

from image import sources
from image.errors import MissingError
from tests.image.checkouts import checkout, commit


def test_version_and_commit_are_told(tmp_path: Path) -> None:
    """The labels name the project's version and the commit."""
    found = sources.read(checkout(tmp_path))
    assert found.version == "1.2.3"
    assert len(found.revision) == 40
    assert found.time.count(":") >= 2


def test_what_a_build_does_not_see_changes_nothing(tmp_path: Path) -> None:
    """A commit to the tests, a file that is ignored and a touched file leave the image as it is."""
    before = sources.read(checkout(tmp_path))
    (tmp_path / "tests/test_model.py").write_text("assert True\n")
    commit(tmp_path)
    (tmp_path / "gpu/model.pyc").write_bytes(b"compiled")
    (tmp_path / "gpu/model.py").touch()
    assert sources.read(tmp_path) == before


@pytest.mark.parametrize("name", ["gpu/model.py", "gpu/new.py"])
def test_change_that_is_not_committed_is_another_image(tmp_path: Path, name: str) -> None:
    """The image of a changed or new file is another, and its label says so."""
    before = sources.read(checkout(tmp_path))
    (tmp_path / name).write_text("TWO = 2\n")
    after = sources.read(tmp_path)
    assert after.digest != before.digest
    assert after.revision == f"{before.revision}-dirty"


def test_removed_file_is_another_image(tmp_path: Path) -> None:
    """What is gone from the checkout is gone from the image."""
    before = sources.read(checkout(tmp_path))
    (tmp_path / "gpu/model.py").unlink()
    assert sources.read(tmp_path).digest != before.digest


def test_folder_without_git_is_refused(tmp_path: Path) -> None:
    """Without a commit there is nothing to say of what the image is made."""
    (tmp_path / ".dockerignore").write_text("!gpu\n")
    with pytest.raises(MissingError, match="git"):
        sources.read(tmp_path)


def test_all_that_the_wheel_holds_is_seen_by_a_build() -> None:
    """Packages and what is put beside them are named in .dockerignore; tests are not."""
    described = tomllib.loads((sources.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = described["tool"]["hatch"]["build"]["targets"]["wheel"]
    names = sources.visible(sources.ROOT)
    held = {path.split("/")[0] for path in [*wheel["packages"], *wheel["force-include"]]}
    assert held <= set(names)
    assert all((sources.ROOT / name).exists() for name in names)
    assert "tests" not in names
