"""The forms in which a container's GPUs are told."""

from pathlib import Path

import pytest

from cdi.spec import Spec
from gpu.model import GpuUuid
from gpu.refusal import Refusal, RefusedError
from hami.plugin.forms import ResponseForm
from hami.plugin.model import Offer
from protos import deviceplugin_v1beta1_pb2 as api
from tests.hami.plugin.responses import Edits, Node, card, edits, form, grant, uuid_of, whole

VOLUMES = "/var/run/nvidia-container-devices"
FIRST, SECOND = uuid_of(0), uuid_of(1)
BOTH = grant(whole(0), whole(1))


def said(answer: api.ContainerAllocateResponse) -> set[str]:
    """Return the parts of *answer* that say something."""
    return {field.name for field, _ in answer.ListFields()}


def test_variable_names_them(tmp_path: Path) -> None:
    """As NVIDIA's runtime reads it."""
    answer = Node(root=tmp_path).responder().respond(BOTH)
    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": f"{FIRST},{SECOND}"}
    assert said(answer) == {"envs"}
    assert not (tmp_path / "cdi").exists()


def test_mounts_name_them(tmp_path: Path) -> None:
    """A container without privileges cannot forge them."""
    answer = Node(root=tmp_path, form=form("volume-mounts")).responder().respond(BOTH)
    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": VOLUMES}
    assert [(each.host_path, each.container_path) for each in answer.mounts] == [
        ("/dev/null", f"{VOLUMES}/{FIRST}"),
        ("/dev/null", f"{VOLUMES}/{SECOND}"),
    ]


def test_names_of_cdi_are_of_our_own_kind(tmp_path: Path) -> None:
    """In the answer, and the file that explains them is there before it is given."""
    answer = Node(root=tmp_path, form=form("cdi-cri")).responder().respond(BOTH)
    assert [each.name for each in answer.cdi_devices] == [
        f"k8s.gpuslice.io/card={FIRST}",
        f"k8s.gpuslice.io/card={SECOND}",
    ]
    assert said(answer) == {"cdi_devices"}
    spec = Spec.parse((tmp_path / "cdi" / "k8s.gpuslice.io-card.json").read_bytes())
    assert {device.name for device in spec.devices} >= {FIRST, SECOND}
    assert spec.container_edits.env == ("NVIDIA_VISIBLE_DEVICES=void",)


@pytest.mark.parametrize("prefix", ["cdi.k8s.io/", "nvidia.cdi.k8s.io/"])
def test_annotation_names_them(tmp_path: Path, prefix: str) -> None:
    """For runtimes that kubelet cannot hand names to; the same container gets the same key."""
    chosen = ResponseForm(
        strategies=form("cdi-annotations").strategies, cdi_annotation_prefix=prefix
    )
    responder = Node(root=tmp_path, form=chosen).responder()
    answer = responder.respond(BOTH)
    ((key, value),) = answer.annotations.items()
    assert key.startswith(f"{prefix}gpuslice_")
    assert len(key.removeprefix(prefix)) <= 63
    assert value == f"k8s.gpuslice.io/card={FIRST},k8s.gpuslice.io/card={SECOND}"
    assert responder.respond(BOTH) == answer
    assert said(answer) == {"annotations"}


def test_gpus_may_go_by_index(tmp_path: Path) -> None:
    """NVML's, outside of CDI; a partition has none."""
    node = Node(root=tmp_path)
    node.offer = Offer(cards=(card(1), card(0)))
    node.form = ResponseForm(
        strategies=form("envvar", "volume-mounts", "cdi-cri").strategies, ids="index"
    )
    answer = node.responder().respond(BOTH)
    assert [each.container_path for each in answer.mounts] == [f"{VOLUMES}/0", f"{VOLUMES}/1"]
    assert answer.cdi_devices[0].name == f"k8s.gpuslice.io/card={FIRST}"


def test_device_nodes_are_passed_where_a_runtime_wants_them(tmp_path: Path) -> None:
    """The driver's and those of the GPUs, from where the host has them; none for displays."""
    answer = Node(root=tmp_path, form=form("envvar", pass_device_specs=True)).responder()
    specs = answer.respond(grant(whole(1))).devices
    assert [(each.container_path, each.host_path, each.permissions) for each in specs] == [
        ("/dev/nvidiactl", "/run/nvidia/driver/dev/nvidiactl", "rw"),
        ("/dev/nvidia-uvm", "/run/nvidia/driver/dev/nvidia-uvm", "rw"),
        ("/dev/nvidia1", "/run/nvidia/driver/dev/nvidia1", "rw"),
    ]


def test_device_nodes_come_with_cdi_already(tmp_path: Path) -> None:
    """Where only its names are given, they are not given twice."""
    chosen = form("cdi-cri", pass_device_specs=True)
    assert not Node(root=tmp_path, form=chosen).responder().respond(BOTH).devices


def test_nvidias_runtime_is_asked_for_more(tmp_path: Path) -> None:
    """By its variables, where they are set."""
    chosen = form("envvar", gdrcopy=True, gds=True, mofed=True)
    envs = Node(root=tmp_path, form=chosen).responder().respond(BOTH).envs
    assert {name: value for name, value in envs.items() if value == "enabled"} == {
        "NVIDIA_GDRCOPY": "enabled",
        "NVIDIA_GDS": "enabled",
        "NVIDIA_MOFED": "enabled",
    }


def test_form_without_a_meaning_is_refused() -> None:
    """None at all, and what CDI's forms would leave out without a word."""
    with pytest.raises(RefusedError, match="one or more forms"):
        form()
    with pytest.raises(RefusedError, match=r"ResponseFormInvalid.*gds.*CDI leaves out"):
        form("cdi-cri", "cdi-annotations", gds=True)
    form("cdi-cri", "envvar", gds=True)


def test_gpu_that_containers_cannot_get_is_refused(tmp_path: Path) -> None:
    """With the reason that the scan found; the others are given."""
    node = Node(root=tmp_path, form=form("cdi-cri"))
    missing = Refusal(code="DeviceNodeMissing", field="nvidiaDevRoot", value="/dev/nvidia0")
    node.edits = Edits(common=edits().common, by_uuid={**edits().by_uuid, GpuUuid(FIRST): missing})
    with pytest.raises(RefusedError, match="DeviceNodeMissing"):
        node.responder().respond(BOTH)
    assert node.responder().respond(grant(whole(1))).cdi_devices


def test_before_the_driver_was_looked_at_cdi_waits(tmp_path: Path) -> None:
    """A name that no file explains would fail in the runtime."""
    node = Node(root=tmp_path, form=form("cdi-cri"), edits=None)
    with pytest.raises(RefusedError, match="NodeNotReady"):
        node.responder().respond(BOTH)
    node.form = form("envvar")
    node.responder().respond(BOTH)


def test_spec_follows_the_node(tmp_path: Path) -> None:
    """At the start, when it was removed, and when the GPUs have changed."""
    node = Node(root=tmp_path, form=form("cdi-cri"))
    responder = node.responder()
    responder.refresh()
    assert len(Spec.parse(node.specs.path.read_bytes()).devices) == 4
    node.specs.path.unlink()
    responder.respond(BOTH)
    assert node.specs.path.exists()
    node.edits = edits(2)
    responder.refresh()
    assert len(Spec.parse(node.specs.path.read_bytes()).devices) == 2


def test_spec_is_made_only_where_it_is_used(tmp_path: Path) -> None:
    """One that an earlier choice has left serves containers that are started again."""
    node = Node(root=tmp_path)
    node.responder().refresh()
    assert not node.specs.path.exists()
    node.specs.ensure(edits())
    node.edits = edits(2)
    node.responder().refresh()
    assert len(Spec.parse(node.specs.path.read_bytes()).devices) == 2
    node.edits = None
    node.responder().refresh()
    assert node.specs.path.exists()


def test_spec_that_cannot_be_written_stops_nobody_else(tmp_path: Path) -> None:
    """It is logged, and tried again with the next container."""
    (tmp_path / "cdi").touch()
    node = Node(root=tmp_path, form=form("cdi-cri"))
    node.responder().refresh()
    with pytest.raises(RefusedError, match="NotADirectory"):
        node.responder().respond(BOTH)
    (tmp_path / "cdi").unlink()
    node.responder().respond(BOTH)
