"""Tests of the minimum version."""

import pytest

from cdi.edits import ContainerEdits, DeviceNode, IntelRdt, Mount, NetDevice
from cdi.spec import Device, Spec
from cdi.version import minimum_version, newest, rank

ENV = ContainerEdits(env=("A=b",))
CASES = [
    (ENV, "0.3.0"),
    (ContainerEdits(mounts=(Mount(host_path="/a", container_path="/b", type="bind"),)), "0.4.0"),
    (ContainerEdits(device_nodes=(DeviceNode(path="/a"),)), "0.3.0"),
    (ContainerEdits(device_nodes=(DeviceNode(path="/a", host_path="/b"),)), "0.5.0"),
    (ContainerEdits(additional_gids=(1,)), "0.7.0"),
    (ContainerEdits(intel_rdt=IntelRdt()), "0.7.0"),
    (ContainerEdits(intel_rdt=IntelRdt(schemata=())), "1.1.0"),
    (ContainerEdits(intel_rdt=IntelRdt(enable_monitoring=True)), "1.1.0"),
    (ContainerEdits(net_devices=(NetDevice(host_interface_name="a", name="b"),)), "1.1.0"),
]


def spec(**fields: object) -> Spec:
    """Return a spec with one plain device, except for *fields*."""
    plain = {
        "cdi_version": "1.1.0",
        "kind": "vendor.com/device",
        "devices": (Device(name="dev0", container_edits=ENV),),
    }
    return Spec.model_validate(plain | fields)


@pytest.mark.parametrize(("edits", "version"), CASES)
def test_edits_need_a_version(edits: ContainerEdits, version: str) -> None:
    """Edits need the same version as common ones and as a device's."""
    assert minimum_version(spec(container_edits=edits)) == version
    assert minimum_version(spec(devices=(Device(name="a", container_edits=edits),))) == version


def test_names_and_annotations_need_a_version() -> None:
    """Digits in front of device names, dots in classes and annotations came later."""
    numbered = Device(name="0", container_edits=ENV)
    annotated = Device(name="a", annotations={"a": "b"}, container_edits=ENV)
    assert minimum_version(spec(devices=(numbered,))) == "0.5.0"
    assert minimum_version(spec(devices=(annotated,))) == "0.6.0"
    assert minimum_version(spec(annotations={"a": "b"})) == "0.6.0"
    assert minimum_version(spec(kind="vendor.com/a.b")) == "0.6.0"


def test_versions_have_an_order() -> None:
    """Known versions compare by age, with or without a v in front; others have no rank."""
    assert newest("0.10.0" if rank("0.10.0") else "0.8.0", "1.0.0") == "1.0.0"
    assert rank("v1.1.0") == rank("1.1.0")
    assert rank("1.2.0") is None
    assert rank("") is None
