"""No module of the node agent changes a file elsewhere than in `cdi.durable`, at a named point."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ONE_MODULE = "cdi/durable.py"

READING = {"O_RDONLY", "O_DIRECTORY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH"}

WRITING = {
    "chmod", "chown", "copy_file_range", "copyfileobj", "fallocate", "fchmod", "fchown",
    "fdatasync", "fsync", "ftruncate", "hardlink_to", "lchmod", "lchown", "link", "makedirs",
    "mkdir", "mkdtemp", "mkfifo", "mknod", "mkstemp", "mmap", "mount", "posix_fallocate", "pwrite",
    "pwritev", "removedirs", "removexattr", "rename", "renames", "rmdir", "rmtree", "sendfile",
    "setxattr", "splice", "symlink", "symlink_to", "touch", "truncate", "umount", "umount2",
    "unlink", "utime", "write_bytes", "write_text", "writev",
}  # fmt: skip
"""Names of functions and methods that change files and that nothing else is called by."""

OF_OS = {"remove", "replace", "sync", "write"}
"""Those that `os` has and other things too."""

MODULES = {"ctypes", "mmap", "shutil", "tempfile"}
"""Modules by which a file can be changed unseen."""

EXCEPTIONS = {
    # An eventfd, by which others wake the thread: no file of any file system.
    ("dra/regionreset.py", "fdopen"),
    # NVML's own structures and calls.
    ("gpu/events.py", "ctypes"),
    ("gpu/instances.py", "ctypes"),
    ("gpu/miginstances.py", "ctypes"),
    ("gpu/nvml.py", "ctypes"),
    # The three numbers of a container's region that its library reads while they change: each is
    # stored at once, in memory that both have mapped.
    ("hami/monitor/regions/fields.py", "ctypes"),
    ("hami/monitor/regions/fields.py", "mmap"),
    # A store in memory.
    ("kube/reflector.py", "replace"),
    # A memfd, from which OpenSSL takes a key: no file of any file system. A path opened for writing
    # would be found as another name.
    ("kube/tls.py", "fdopen"),
}


class Writes(ast.NodeVisitor):
    """Finds what may change a file."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._durable: set[str] = set()

    def visit_Import(self, node: ast.Import) -> None:
        """Look at `import shutil`."""
        self.found += [each.name for each in node.names if each.name in MODULES]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Look at `from os import open`."""
        if node.module in MODULES | {"io", "os"}:
            self.found += [each.name for each in node.names]
        if node.module == "cdi.durable":
            self._durable |= {each.name for each in node.names}

    def visit_Call(self, node: ast.Call) -> None:
        """Look at a call by the name of what is called."""
        name, owner = "", ""
        match node.func:
            case ast.Name(id=name):
                pass
            case ast.Attribute(attr=name, value=ast.Name(id=owner)):
                pass
            case ast.Attribute(attr=name):
                owner = "an expression"
            case _:
                pass
        by_name = owner == "durable" or (not owner and name in self._durable)
        if not by_name and _changes(node, name, owner):
            self.found.append(name)
        self.generic_visit(node)


def _changes(node: ast.Call, name: str, owner: str) -> bool:
    if name == "open" and owner == "os":
        return not _flags_read(node.args[1] if len(node.args) > 1 else None)
    if name in {"open", "fdopen"}:
        is_path = name == "open" and owner not in {"", "io"}
        return not _mode_reads(node, 0 if is_path else 1)
    if name == "replace" and owner != "os":
        # `Path.replace` takes the target alone; that of a text takes two.
        return len(node.args) == 1 and not node.keywords
    if name == "getattr":
        return any(isinstance(each, ast.Name) and each.id == "os" for each in node.args)
    return name in WRITING or (owner == "os" and name in OF_OS)


def _flags_read(flags: ast.expr | None) -> bool:
    """Tell whether the flags of an `os.open` are written out, and are all for reading."""
    match flags:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _flags_read(left) and _flags_read(right)
        case ast.Attribute(attr=attr, value=ast.Name(id="os")):
            return attr in READING
        case _:
            return False


def _mode_reads(node: ast.Call, position: int) -> bool:
    """Tell whether the mode of an `open` is written out, and is for reading."""
    modes = [*node.args[position : position + 1]]
    modes += [each.value for each in node.keywords if each.arg == "mode"]
    return all(
        isinstance(each, ast.Constant) and set(str(each.value)) <= set("rbt") for each in modes
    )


def changes(text: str) -> list[str]:
    """Return what in the Python *text* may change a file."""
    writes = Writes()
    writes.visit(ast.parse(text))
    return writes.found


ELSEWHERE = (
    "cli/demo/",
    "cli/demo_command.py",
    "cli/discover.py",
    "cli/main.py",
    "protos/build",
)
"""What changes files and does not run on a node: the demo, and commands for a desk."""


def modules() -> Iterator[str]:
    """Yield all that processes on a node run of ours, the simulation's start included."""
    for package in ("cdi", "cli", "dra", "gpu", "hami", "kube", "protos"):
        for path in sorted((ROOT / package).rglob("*.py")):
            module = str(path.relative_to(ROOT))
            if not module.startswith(ELSEWHERE):
                yield module


def test_one_module_changes_files() -> None:
    """A crash between any two changes is tried only if there is no change that nobody knows of."""
    found = {
        (module, name)
        for module in modules()
        if module != ONE_MODULE
        for name in changes((ROOT / module).read_text(encoding="utf-8"))
    }
    assert found == EXCEPTIONS


@pytest.mark.parametrize(("module", "name"), sorted(EXCEPTIONS))
def test_an_exception_is_one_for_what_has_that_name_alone(module: str, name: str) -> None:
    """Another way to change a file is found in the same module."""
    text = (ROOT / module).read_text(encoding="utf-8")
    opening = "\nopen(path, 'w')\nos.open(path, os.O_WRONLY)\npath.write_text('x')\n"
    names = {each for where, each in EXCEPTIONS if where == module}
    assert name in names
    assert set(changes(text)) == names
    assert set(changes(text + opening)) == names | {"open", "write_text"}


def test_that_module_does_change_files() -> None:
    """What is looked for is really there."""
    found = set(changes((ROOT / ONE_MODULE).read_text(encoding="utf-8")))
    assert found >= {"mkdir", "open", "fdopen", "fsync", "replace", "unlink", "mount", "umount2"}


@pytest.mark.parametrize(
    "text",
    [
        "path.write_text('x')",
        "path.write_bytes(b'x')",
        "path.touch()",
        "path.mkdir(parents=True)",
        "os.makedirs(path)",
        "path.rename(other)",
        "path.replace(other)",
        "path.with_name('x').replace(other)",
        "os.replace(path, other)",
        "path.unlink(missing_ok=True)",
        "os.unlink(path)",
        "os.remove(path)",
        "path.rmdir()",
        "shutil.rmtree(path)",
        "path.symlink_to(other)",
        "path.hardlink_to(other)",
        "os.symlink(path, other)",
        "os.link(path, other)",
        "os.ftruncate(descriptor, 0)",
        "os.truncate(path, 0)",
        "file.truncate()",
        "os.fsync(descriptor)",
        "os.fdatasync(descriptor)",
        "os.sync()",
        "os.write(descriptor, data)",
        "os.chmod(path, 0o600)",
        "path.chmod(0o600)",
        "os.mknod(path)",
        "tempfile.mkstemp()",
        "libc().mount(a, b, c, 0, d)",
        "libc().umount2(a, 2)",
        "import tempfile",
        "import shutil",
        "import ctypes",
        "import mmap",
        "from shutil import copyfile",
        "from tempfile import NamedTemporaryFile",
        "from os import open as open_it",
        "open(path, 'w')",
        "open(path, mode='ab')",
        "open(path, mode)",
        "open(path, 'r+')",
        "io.open(path, 'x')",
        "path.open('w')",
        "path.open(mode='r+b')",
        "os.fdopen(descriptor, 'wb')",
        "os.open(path, os.O_WRONLY)",
        "os.open(path, os.O_RDONLY | os.O_CREAT)",
        "os.open(path, flags)",
        "os.open(path, os.O_RDONLY | flags)",
        "getattr(os, 'un' + 'link')(path)",
    ],
)
def test_a_change_of_any_kind_is_found(text: str) -> None:
    """The test above would notice each of these."""
    assert changes(text)


@pytest.mark.parametrize(
    "text",
    [
        "path.read_text()",
        "path.open('rb')",
        "path.open()",
        "open(path)",
        "os.fdopen(descriptor, 'rb')",
        "os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)",
        "text.replace('a', 'b')",
        "replace(record, boot_id='')",
        "dataclasses.replace(record, boot_id='')",
        "client.replace(path, item)",
        "names.remove(name)",
        "socket.write(data)",
        "store.open()",
        "from cdi.durable import truncate\ntruncate(descriptor, 0, at)",
        "from cdi import durable\ndurable.truncate(descriptor, 0, at)",
    ],
)
def test_what_only_reads_is_not_taken_for_a_change(text: str) -> None:
    """The test above has few exceptions because it is not shy."""
    assert not changes(text)
