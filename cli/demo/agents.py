"""The real node agents of the demo: one process a node.

Only NVML and the host's files are stood in for (`cli.simulated_agent`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cdi.library import make_placeholder
from cli.demo.programs import Program
from sim.node import NodeHandle


@dataclass(slots=True)
class Agent:
    """A running node agent."""

    node: NodeHandle
    program: Program

    @classmethod
    def start(
        cls,
        node: NodeHandle,
        kubeconfig: Path,
        directory: Path,
        *,
        more: Mapping[str, object] | None = None,
    ) -> Self:
        """Start the agent of *node* with *more* flags, and its log below *directory*."""
        library = directory / "libvgpu.so"
        if not library.exists():
            make_placeholder(library)
        flags = {
            "--node-name": node.name,
            "--kubeconfig": kubeconfig,
            "--kubelet-root": node.kubelet_root,
            "--cdi-directory": node.cdi_dir,
            "--host-root": node.root,
            "--proc-root": node.root / "proc",
            "--sys-root": node.root / "sys",
            "--operator-wait-s": 0,
            "--hami-core-library": library,
            **(more or {}),
        }
        words = ["cli.simulated_agent", "--gpus", str(node.gpus_file), "--"]
        program = Program.start(
            f"the agent of {node.name}",
            [*words, "--accept-placeholder-library"],
            flags,
            directory / f"{node.name}.log",
        )
        return cls(node=node, program=program)
