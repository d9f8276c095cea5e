"""Gathers what the image has besides its packages: an interpreter and what that needs of a system.

Run in the image's build with the base's Python. A distribution's smallest system has a shell, a
package manager, programs that run as root for whoever starts them, and flaws to be told of every
week; none of that serves a program in Python. What is taken here is a few dozen files, and the
distribution's word on each package they are from, where scanners look for it
(`/var/lib/dpkg/status.d`).
"""

import argparse
import shutil
import ssl
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from image.trim import finish

_USERS: Final = (("root", 0, "/root"), ("gpuslice", 65532, "/"), ("nobody", 65534, "/"))

# Of the standard library: what is for developers, or needs a display or a database's library.
_LEFT_OUT: Final = frozenset(
    {
        "__pycache__",
        "curses",
        "dbm",
        "distutils",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "dist-packages",
        "sqlite3",
        "test",
        "tests",
        "tkinter",
        "turtle.py",
        "turtledemo",
        "venv",
    }
)
_LEFT_OUT_PREFIXES: Final = (
    "_ctypes_test", "_curses", "_dbm", "_gdbm", "_sqlite3", "_test", "_tkinter", "_xxtestfuzz",
    "config-", "nis.", "ossaudiodev.", "readline.", "sitecustomize", "xxlimited",
)  # fmt: skip

# NVIDIA's library, which is the node's, needs those of a C library that are empty by now.
_OF_THE_C_LIBRARY: Final = (
    "libdl.so.2", "libm.so.6", "libnss_dns.so.2", "libnss_files.so.2", "libpthread.so.0",
    "libresolv.so.2", "librt.so.1", "libutil.so.1",
)  # fmt: skip
_AUTHORITIES: Final = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


class Rootfs:
    """A tree below *root* that takes files of this system, each at its own path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.taken: set[Path] = set()

    def at(self, path: str | Path) -> Path:
        """Return where *path* of the image lies while the tree is made."""
        return self.root / str(path).lstrip("/")

    def take(self, path: Path) -> None:
        """Copy a file, and every link on the way to it as a link."""
        place = self._folder(path.parent) / path.name
        if place in self.taken:
            return
        self.taken.add(place)
        if place.is_symlink():
            self.at(place).symlink_to(place.readlink())
            self.take(place.parent / place.readlink())
        else:
            shutil.copy(place, self.at(place))

    def take_tree(self, top: Path) -> None:
        """Copy the standard library, or a part of it, less what is of no use here."""
        for path in sorted(top.iterdir()):
            if path.name in _LEFT_OUT or path.name.startswith(_LEFT_OUT_PREFIXES):
                continue
            if path.is_dir() and not path.is_symlink():
                self.take_tree(path)
            elif path.exists():
                self.take(path)

    def write(self, path: str, text: str) -> None:
        """Write a file of ours."""
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).write_text(text, encoding="utf-8")

    def _folder(self, folder: Path) -> Path:
        """Make *folder* and return where it really is, with the links that lead there."""
        real = Path("/")
        for part in folder.parts[1:]:
            here = real / part
            if here.is_symlink():
                if not self.at(here).is_symlink():
                    self.at(here).symlink_to(here.readlink())
                real = self._folder(Path(here.parent, here.readlink()))
            else:
                real = here.resolve()
                self.at(real).mkdir(parents=True, exist_ok=True)
        return real


def build(root: Path, environment: Path) -> None:
    """Fill *root* with what the virtual *environment* needs to run."""
    rootfs = Rootfs(root)
    for folder in ("etc", "proc", "sys", "dev", "run", "root"):
        rootfs.at(folder).mkdir(parents=True, exist_ok=True)
    rootfs.at("tmp").mkdir()
    rootfs.at("tmp").chmod(0o1777)
    for kind in ("stdlib", "platstdlib"):
        rootfs.take_tree(Path(sysconfig.get_path(kind)))
    interpreter = Path(sys.executable)
    rootfs.take(interpreter)
    programs = [interpreter.resolve(), *root.rglob("*.so"), *environment.rglob("*.so*")]
    libraries = set(needed(programs, environment))
    libc = next(path for path in libraries if path.name.startswith("libc.so"))
    libraries.update(each for name in _OF_THE_C_LIBRARY if (each := libc.parent / name).exists())
    for library in sorted(libraries):
        rootfs.take(library)
    _settings(rootfs)
    _provenance(rootfs)
    subprocess.run(["ldconfig", "-r", root], check=True)
    standard = Path(sysconfig.get_path("stdlib"))
    finish(rootfs.at(standard), shown_as=standard)


def needed(programs: Iterable[Path], environment: Path) -> Iterator[Path]:
    """Yield the system's libraries that *programs* load, the loader included."""
    for program in programs:
        if program.is_symlink() or not program.is_file():
            continue
        told = subprocess.run(["ldd", program], check=False, capture_output=True, text=True)
        for line in told.stdout.splitlines():
            if "not found" in line:
                message = f"{program} needs {line.strip()}"
                raise SystemExit(message)
            words = [word for word in line.split() if word.startswith("/")]
            if words and not Path(words[0]).is_relative_to(environment):
                yield Path(words[0])


def _settings(rootfs: Rootfs) -> None:
    rootfs.write(
        "etc/passwd", "".join(f"{n}:x:{i}:{i}::{home}:/nologin\n" for n, i, home in _USERS)
    )
    rootfs.write("etc/group", "".join(f"{n}:x:{i}:\n" for n, i, _ in _USERS))
    rootfs.write("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    rootfs.take(Path("/etc/os-release"))
    for each in (Path("/etc/ld.so.conf"), *Path("/etc/ld.so.conf.d").glob("*.conf")):
        if each.exists():
            rootfs.take(each)
    places = (ssl.get_default_verify_paths().cafile, *_AUTHORITIES)
    found = next((place for place in places if place and Path(place).exists()), None)
    if found is None:
        message = "the base has no ca-certificates"
        raise SystemExit(message)
    rootfs.write(_AUTHORITIES[0], Path(found).read_text(encoding="utf-8"))
    rootfs.taken.add(Path(_AUTHORITIES[0]))


def _provenance(rootfs: Rootfs) -> None:
    """Leave the distribution's word on each package of which a file was taken, and its licence."""
    packages = set(_packages_of(rootfs.taken))
    for package in sorted(packages | {"ca-certificates"}):
        status = subprocess.run(
            ["dpkg-query", "--status", package], check=True, capture_output=True, text=True
        )
        name = package.split(":", maxsplit=1)[0]
        rootfs.write(f"var/lib/dpkg/status.d/{name}", status.stdout)
        copyright_file = Path("/usr/share/doc", name, "copyright")
        if copyright_file.exists():
            rootfs.write(
                f"usr/share/doc/{name}/copyright", copyright_file.read_text(encoding="utf-8")
            )
    version = ".".join(map(str, sys.version_info[:3]))
    rootfs.write("usr/share/gpuslice/python-version", f"{version}\n")


def _packages_of(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the packages that own *paths*; a path may be known by its name before /usr's merger."""
    names = [str(path) for path in paths]
    names += [name.removeprefix("/usr") for name in names if name.startswith("/usr/lib")]
    told = subprocess.run(
        ["dpkg-query", "--search", *sorted(names)], check=False, capture_output=True, text=True
    )
    yield from owners(told.stdout.splitlines())


def owners(lines: Iterable[str]) -> Iterator[str]:
    """Yield the packages that `dpkg-query --search` has told; diversions are no packages."""
    for line in lines:
        if not line.startswith("diversion by "):
            yield from (owner.strip() for owner in line.partition(": ")[0].split(","))


def main() -> None:
    """Read the arguments and build."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--venv", type=Path, required=True)
    parser.add_argument("--root", type=Path, required=True)
    chosen = parser.parse_args()
    build(chosen.root, chosen.venv)


if __name__ == "__main__":
    main()
