"""Tests of the rules for what we write ourselves."""

import pytest

from cdi.edits import ContainerEdits, DeviceNode, Hook, Mount
from cdi.emit import check_emitted
from cdi.errors import SpecError
from cdi.spec import Device, Spec

NODE = {"path": "/dev/a", "type": "c", "major": 1, "minor": 0, "permissions": "rw"}


def spec(edits: ContainerEdits | None = None, /, **fields: object) -> Spec:
    """Return a spec with *edits* on its one device, except for *fields*."""
    device = Device(name="a", container_edits=edits or ContainerEdits(env=("A=b",)))
    plain = {"cdi_version": "0.5.0", "kind": "vendor.com/device", "devices": (device,)}
    return Spec.model_validate(plain | fields)


def node(**fields: object) -> ContainerEdits:
    """Return edits with a fully told node, except for *fields*."""
    return ContainerEdits(device_nodes=(DeviceNode.model_validate(NODE | fields),))


def env(*env: str) -> ContainerEdits:
    """Return edits with *env*."""
    return ContainerEdits(env=env)


def mount(host_path: str, container_path: str = "/b") -> ContainerEdits:
    """Return edits with one mount."""
    return ContainerEdits(mounts=(Mount(host_path=host_path, container_path=container_path),))


@pytest.mark.parametrize("edits", [node(), env("A=", "_b=1=2"), mount("/a/..b/.c", "/é")])
def test_clean_edits_pass(edits: ContainerEdits) -> None:
    """Ordinary edits are returned as they are."""
    made = spec(edits)
    assert check_emitted(made) is made


@pytest.mark.parametrize(
    ("edits", "field"),
    [
        (node(type=""), "deviceNodes"),
        (node(major=None), "deviceNodes"),
        (node(major=0), "deviceNodes"),
        (node(minor=None), "deviceNodes"),
        (node(permissions=""), "deviceNodes"),
        (node(permissions="none"), "deviceNodes"),
        (node(path="dev/a"), "deviceNodes"),
        (node(host_path="dev/a"), "deviceNodes"),
        (ContainerEdits(device_nodes=node().device_nodes * 2), "deviceNodes"),
        (env("A B=1"), "env"),
        (env("1A=1"), "env"),
        (env("A=1", "A=2"), "env"),
        (env("A=1\nB=2"), "env"),
        (env("CUDA_VISIBLE_DEVICES=0"), "env"),
        (env("LD_PRELOAD=/x"), "env"),
        (mount("a"), "mounts"),
        (mount("/"), "mounts"),
        (mount("/a/"), "mounts"),
        (mount("/a//b"), "mounts"),
        (mount("/a/../b"), "mounts"),
        (mount("/a", "/."), "mounts"),
        (mount("/a", "/b\n"), "mounts"),
        (ContainerEdits(mounts=mount("/a").mounts + mount("/c").mounts), "mounts"),
        (ContainerEdits(hooks=(Hook(hook_name="prestart", path="h"),)), "hooks"),
        (ContainerEdits(hooks=(Hook(hook_name="prestart", path="/h", env=("A B=1",)),)), "hooks"),
    ],
)
def test_careless_edits_are_named(edits: ContainerEdits, field: str) -> None:
    """Edits that the library takes and another reader may not are refused, with their place."""
    for made in (spec(edits), spec(container_edits=edits)):
        with pytest.raises(SpecError) as caught:
            check_emitted(made)
        assert field in caught.value.field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": "v/device"}, "kind"),
        ({"kind": "vendor.com/d"}, "kind"),
        ({"kind": "Vendor.com/device"}, "kind"),
        ({"kind": "a" * 64 + ".com/device"}, "kind"),
        ({"kind": "vendor.com/" + "d" * 64}, "kind"),
        ({"kind": "nvidia.com/gpu"}, "kind"),
        ({"cdi_version": "0.6.0"}, "cdiVersion"),
        ({"cdi_version": "0.3.0"}, "cdiVersion"),
        ({"cdi_version": "0.6.0", "annotations": {"bad key": ""}}, "annotations"),
        ({"cdi_version": "0.6.0", "annotations": {"a": "x" * 300_000}}, "annotations"),
        ({"devices": (Device(name="a" * 254, container_edits=env("A=b")),)}, "devices"),
    ],
)
def test_careless_specs_are_named(fields: dict[str, object], field: str) -> None:
    """Names, lengths and versions that SPEC.md forbids are refused."""
    with pytest.raises(SpecError) as caught:
        check_emitted(spec(**fields))
    assert field in caught.value.field


def test_annotations_may_have_a_domain() -> None:
    """Qualified names are keys."""
    made = spec(cdi_version="0.6.0", annotations={"gpuslice.io/claim": "x", "a": "b"})
    assert check_emitted(made) is made
