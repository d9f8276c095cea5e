"""A node whose GPUs are simulated, for agents that run in containers as the chart starts them.

The image is the one that people install. What is simulated is mounted over it by the values for
further volumes: a `gpuslice` that puts the simulated NVML below the binding for the node agent and
for nothing else, the node's GPUs, and what its /proc and /sys say of them. The driver's files lie
where the GPU Operator's driver container has them.

`python -m tests.cluster.installing.simulated NODE FOLDER` writes the same below FOLDER, for nodes
that are elsewhere, and prints the chart's values.
"""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from cdi.library import make_placeholder
from sim import driverroot, gpufile
from tests.cluster.cluster import RealCluster
from tests.cluster.scenes.agents import DRIVER_ROOT
from tests.cluster.scenes.driver import GPUS

_FOLDER: Final = "/var/lib/simulated"
_COMMAND: Final = "/opt/gpuslice/bin/gpuslice"
_BOOT_ID: Final = "sys/kernel/random/boot_id"
_SCRIPT: Final = f"""\
#!/opt/gpuslice/bin/python
import sys

words = sys.argv[1:]
if words[:1] == ["node-agent"]:
    from cli.simulated_agent import main
    sys.exit(main(["--gpus", "{_FOLDER}/gpus.yaml", "--", *words[1:]]))
from cli.main import main
sys.exit(main(words))
"""


def lay_out(cluster: RealCluster) -> None:
    """Write the driver of the node with a kubelet and what stands for its NVML."""
    node = cluster.node_names[0]
    write(node, cluster.outside("/var/lib").parents[1])
    # As NVIDIA's feature discovery does it.
    cluster.kubectl("label", "--overwrite", "node", node, "nvidia.com/gpu.present=true")


def write(node: str, root: Path) -> None:
    """Write them for *node*, whose file system begins at *root*."""
    folder = root / _FOLDER.lstrip("/")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    gpus = folder / "gpus.yaml"
    gpus.write_text(yaml.safe_dump({"node": node, "gpus": [dict(each) for each in GPUS[0]]}))
    # Below a folder of its own: a node's real /proc and /sys cannot be written.
    driverroot.build(gpufile.load(gpus), folder, driver_root=DRIVER_ROOT, dev_root=DRIVER_ROOT)
    driver = root / DRIVER_ROOT.lstrip("/")
    shutil.rmtree(driver, ignore_errors=True)
    driver.parent.mkdir(parents=True, exist_ok=True)
    (folder / DRIVER_ROOT.lstrip("/")).rename(driver)
    boot_id = folder / "proc" / _BOOT_ID
    boot_id.parent.mkdir(parents=True, exist_ok=True)
    boot_id.write_text(Path("/proc", _BOOT_ID).read_text())
    make_placeholder(folder / "libvgpu.so")
    command = folder / "gpuslice"
    command.write_text(_SCRIPT)
    command.chmod(0o755)


def agent_values() -> dict[str, Any]:
    """Return what the chart's values for the node agent say of it."""
    return {
        # There is no runtime of NVIDIA's here to read variables.
        "settings": {"deviceListStrategy": ["cdi-cri"]},
        "extraArgs": [f"--proc-root={_FOLDER}/proc", f"--sys-root={_FOLDER}/sys"],
        "extraVolumes": [
            {"name": "simulated", "hostPath": {"path": _FOLDER, "type": "Directory"}},
            {"name": "command", "hostPath": {"path": f"{_FOLDER}/gpuslice", "type": "File"}},
        ],
        "extraVolumeMounts": [
            {"name": "simulated", "mountPath": _FOLDER, "readOnly": True},
            {"name": "command", "mountPath": _COMMAND, "readOnly": True},
        ],
    }


def main(words: Sequence[str]) -> int:
    """Write the files of a node and print the values."""
    node, folder = words
    write(node, Path(folder))
    sys.stdout.write(json.dumps({"kubeletPlugin": agent_values()}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
