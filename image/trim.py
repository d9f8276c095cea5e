"""Takes out of an installed tree what no program reads, and compiles what is left.

Run in the image's build with the base's Python, so it has to do with the standard library. The
bytecode holds no times: layers get one time for all files, which would outdate it, and nobody can
write it anew in the image.
"""

import compileall
import csv
import os
import py_compile
import re
import shutil
import sys
from pathlib import Path
from typing import Final

_TESTS: Final = ("test", "tests")
_FOR_DEVELOPERS: Final = (".a", ".h", ".pyi", ".pxd", ".c", ".pyx")
_PROGRAMS: Final = ("gpuslice", "python")
# Sixty megabytes of bytecode that only a kubeconfig with a login program would have read.
_UNCOMPILED: Final = re.compile(r"/site-packages/kubernetes/")


def trim(tree: Path) -> None:
    """Trim the environment, or part of one, whose top is *tree*."""
    shutil.rmtree(tree / "include", ignore_errors=True)
    for path in (tree / "bin").iterdir():
        if not path.name.startswith(_PROGRAMS):
            path.unlink()
    for packages in sorted(tree.glob("lib/python3.*/site-packages")):
        for folder in sorted(packages.glob("*/**/")):
            if folder.name in _TESTS and folder.is_dir():
                shutil.rmtree(folder)
        for path in packages.rglob("*"):
            if path.suffix in _FOR_DEVELOPERS and path.is_file():
                path.unlink()
        for record in packages.glob("*.dist-info/RECORD"):
            _tell_what_is_left(record, packages)
    finish(tree / "lib", shown_as=tree / "lib")


def finish(tree: Path, *, shown_as: Path) -> None:
    """Make what is in *tree* no programs, and compile its modules.

    Tracebacks are to name them by their places in *shown_as*.
    """
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o644)
    done = compileall.compile_dir(
        tree,
        quiet=1,
        rx=_UNCOMPILED,
        stripdir=str(tree),
        prependdir=str(shown_as),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        workers=os.cpu_count() or 1,
    )
    if not done:
        message = f"not all of {tree} compiles"
        raise SystemExit(message)


def _tell_what_is_left(record: Path, packages: Path) -> None:
    with record.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row and (packages / row[0]).exists()]
    with record.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    trim(Path(sys.argv[1]))
