"""Compile the `.proto` files of this folder when the package is built or installed.

Stubs are not kept in version control: they are made by Hatch's build hook, both for a wheel and
for an editable installation. The files have unique names because Python's descriptor pool is
keyed by file name and kubelet's own are all called `api.proto`.
"""

import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

from grpc_tools import protoc
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class StubBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # its config type is private
    """Hatch's build hook that runs `protoc` over `protos/*.proto`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write `*_pb2.py`, `*_pb2_grpc.py` and their type stubs beside the sources."""
        compile_all(Path(self.root))


def compile_all(root: Path) -> None:
    """Compile every `.proto` below *root*`/protos`; raises `RuntimeError` with protoc's status."""
    well_known = str(files("grpc_tools") / "_proto")
    sources = sorted(str(path.relative_to(root)) for path in (root / "protos").glob("*.proto"))
    status = protoc.main(
        [
            "protoc",
            f"-I{root}",
            f"-I{well_known}",
            f"--plugin=protoc-gen-mypy={_program('protoc-gen-mypy')}",
            f"--plugin=protoc-gen-mypy_grpc={_program('protoc-gen-mypy_grpc')}",
            f"--python_out={root}",
            f"--grpc_python_out={root}",
            f"--mypy_out={root}",
            f"--mypy_grpc_out={root}",
            *(str(root / source) for source in sources),
        ]
    )
    if status != 0:
        message = f"protoc ended with status {status}"
        raise RuntimeError(message)


def _program(name: str) -> str:
    """Where *name* is: on the path in an isolated build, else beside the interpreter."""
    return shutil.which(name) or str(Path(sys.executable).parent / name)
