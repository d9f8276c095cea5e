"""Tests of taking edits from nvidia-ctk, played by a shell script."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cdi.delegate import Generator, generate
from cdi.emit import check_emitted
from cdi.errors import DelegateError
from cdi.spec import Device, Spec

UUID = "GPU-00000000-0000-4000-8000-000000000000"
MPS = {"hostPath": "/tmp/nvidia-mps", "containerPath": "/tmp/nvidia-mps"}  # noqa: S108
LIBRARY = {"hostPath": "/driver-root/usr/lib64/libcuda.so.1.2", "containerPath": "/usr/lib64/x"}


def generated(**node: Any) -> dict[str, Any]:
    """Return a document as nvidia-ctk writes it: no types, and zeroes left out."""
    told = {"path": "/dev/nvidia0", "hostPath": "/driver-root/dev/nvidia0", "major": 195} | node
    return {
        "cdiVersion": "0.5.0",
        "kind": "k8s.gpuslice.io/claim",
        "devices": [
            {"name": UUID, "containerEdits": {"deviceNodes": [told]}},
            {"name": "all", "containerEdits": {"deviceNodes": [told]}},
        ],
        "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "mounts": [MPS, LIBRARY]},
    }


def generator(root: Path, script: str) -> Generator:
    """Return a generator that runs the Python *script*."""
    path = root / "nvidia-ctk.py"
    path.write_text(script)
    command = (sys.executable, str(path))
    return Generator(command=command, local_root="/driver-root", host_root="/", timeout_s=20.0)


def printing(root: Path, document: object) -> Generator:
    """Return a generator that writes *document*, and its own arguments beside itself."""
    script = f"import json, sys, pathlib\nprint({json.dumps(document)!r})\n"
    script += "pathlib.Path(__file__).with_suffix('.args').write_text(json.dumps(sys.argv[1:]))"
    return generator(root, script)


def test_edits_are_adapted_to_ours(tmp_path: Path) -> None:
    """Host paths, types and zeroes are filled in, and the host's MPS directory is dropped."""
    made = generate(printing(tmp_path, generated()), [UUID])
    (node,) = made.devices[UUID].device_nodes
    assert (node.type, node.major, node.minor, node.permissions) == ("c", 195, 0, "rw")
    assert (node.path, node.host_path) == ("/dev/nvidia0", "")
    assert [mount.host_path for mount in made.common.mounts] == ["/usr/lib64/libcuda.so.1.2"]
    assert set(made.devices) == {UUID}
    spec = Spec(
        cdi_version="0.5.0",
        kind="k8s.gpuslice.io/claim",
        container_edits=made.common,
        devices=(Device(name="a", container_edits=made.devices[UUID]),),
    )
    assert check_emitted(spec) is spec


def test_generator_is_asked_for_the_devices(tmp_path: Path) -> None:
    """The program is run for the UUIDs only, with names of ours and without its merged device."""
    generate(printing(tmp_path, generated()), [UUID, UUID])
    arguments = json.loads((tmp_path / "nvidia-ctk.args").read_text())
    assert arguments[:2] == ["cdi", "generate"]
    assert arguments.count(UUID) == 1
    assert arguments[arguments.index("--vendor") + 1] == "k8s.gpuslice.io"
    assert "--no-all-device" in arguments


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("no spec", "no usable spec"),
        (generated() | {"unknown": 1}, "no usable spec"),
        (generated() | {"cdiVersion": "9.0.0"}, "no usable spec"),
        (generated(major=0), "no numbers: /dev/nvidia0"),
    ],
)
def test_unusable_documents_are_refused(tmp_path: Path, document: object, said: str) -> None:
    """What is written is held against the library's rules and needs device numbers."""
    with pytest.raises(DelegateError, match=said):
        generate(printing(tmp_path, document), [UUID])


def test_missing_devices_are_named(tmp_path: Path) -> None:
    """A GPU that the generator does not know is an error that names it."""
    with pytest.raises(DelegateError, match="did not describe: GPU-other"):
        generate(printing(tmp_path, generated()), [UUID, "GPU-other"])


def test_failures_repeat_what_was_said(tmp_path: Path) -> None:
    """The last line on stderr and the status are in the message."""
    failing = generator(
        tmp_path, "import sys; print('a\\nno driver', file=sys.stderr); sys.exit(3)"
    )
    with pytest.raises(DelegateError, match=r"failed: no driver \(exit status 3\)"):
        generate(failing, [UUID])
    silent = generator(tmp_path, "raise SystemExit(1)")
    with pytest.raises(DelegateError, match="nothing"):
        generate(silent, [UUID])


def test_programs_that_do_not_run_are_named(tmp_path: Path) -> None:
    """A missing program and one that never ends are told apart from a bad document."""
    with pytest.raises(DelegateError, match="did not run"):
        generate(Generator(command=(str(tmp_path / "missing"),)), [UUID])
    sleeping = generator(tmp_path, "import time; time.sleep(60)")
    with pytest.raises(DelegateError, match=r"did not run.*timed out"):
        generate(Generator(command=sleeping.command, timeout_s=0.2), [UUID])
