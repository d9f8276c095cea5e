"""Tests of what is taken out of an environment."""

import csv
import importlib.util
import os
from pathlib import Path

from image.trim import trim

_PACKAGES = "lib/python3.11/site-packages"
_FILES = {
    f"{_PACKAGES}/thing/__init__.py": "VALUE = 1\n",
    f"{_PACKAGES}/thing/__init__.pyi": "VALUE: int\n",
    f"{_PACKAGES}/thing/data.txt": "kept",
    f"{_PACKAGES}/thing/tests/test_thing.py": "",
    f"{_PACKAGES}/thing/deep/tests/__init__.py": "",
    f"{_PACKAGES}/thing/deep/libthing.a": "",
    f"{_PACKAGES}/kubernetes/__init__.py": "",
    f"{_PACKAGES}/thing-1.dist-info/RECORD": (
        "thing/__init__.py,,\nthing/__init__.pyi,,\nthing/tests/test_thing.py,,\n../../../bin/tool,,\n"
    ),
    "bin/gpuslice": "#!python\n",
    "bin/python3": "",
    "bin/tool": "#!python\n",
    "include/thing.h": "",
}


def tree(tmp_path: Path) -> Path:
    """Return an environment with one package."""
    for name, text in _FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o775)
    return tmp_path


def left(top: Path) -> set[str]:
    """Return the files that are not bytecode."""
    return {
        str(path.relative_to(top))
        for path in top.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def test_only_what_programs_read_is_left(tmp_path: Path) -> None:
    """Tests, headers, stubs and other packages' commands go; code and data stay."""
    trim(tree(tmp_path))
    assert left(tmp_path) == {
        f"{_PACKAGES}/thing/__init__.py",
        f"{_PACKAGES}/thing/data.txt",
        f"{_PACKAGES}/kubernetes/__init__.py",
        f"{_PACKAGES}/thing-1.dist-info/RECORD",
        "bin/gpuslice",
        "bin/python3",
    }


def test_record_of_a_package_names_what_is_left(tmp_path: Path) -> None:
    """Who reads a package's list of files finds each of them."""
    packages = trim_and_find(tmp_path)
    with (packages / "thing-1.dist-info/RECORD").open(newline="") as file:
        assert [row[0] for row in csv.reader(file)] == ["thing/__init__.py"]


def trim_and_find(tmp_path: Path) -> Path:
    """Trim an environment and return its packages."""
    trim(tree(tmp_path))
    return tmp_path / _PACKAGES


def test_modules_are_compiled_but_for_the_largest(tmp_path: Path) -> None:
    """Bytecode is read whatever time its source has, and names the source as it will be found."""
    packages = trim_and_find(tmp_path)
    module = packages / "thing/__init__.py"
    compiled = Path(importlib.util.cache_from_source(str(module)))
    content = compiled.read_bytes()
    assert int.from_bytes(content[4:8], "little") == 0b01
    assert str(module).encode() in content
    assert not (packages / "kubernetes/__pycache__").exists()


def test_no_library_file_can_be_started(tmp_path: Path) -> None:
    """Only what is in bin is a program."""
    packages = trim_and_find(tmp_path)
    assert not os.access(packages / "thing/data.txt", os.X_OK)
    assert (packages / "thing/data.txt").stat().st_mode & 0o777 == 0o644
    assert os.access(tmp_path / "bin/gpuslice", os.X_OK)
