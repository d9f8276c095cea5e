"""What a spec file must and must not hold."""

from typing import Any

import pytest

from sim.runtime.errors import SpecError
from sim.runtime.spec import minimum_version, parse

JsonObject = dict[str, Any]


def spec(edits: JsonObject | None = None, **changes: Any) -> JsonObject:
    """Return a good spec with *edits* in its device and top-level *changes*."""
    device = {"name": "dev0", "containerEdits": edits or {"env": ["A=1"]}}
    good = {"cdiVersion": "0.3.0", "kind": "vendor.com/class", "devices": [device]}
    return {**good, **changes}


NODE = {"deviceNodes": [{"path": "/dev/a"}]}


@pytest.mark.parametrize(
    ("version", "document"),
    [
        ("0.3.0", spec()),
        ("0.4.0", spec({"mounts": [{"hostPath": "/a", "containerPath": "/b", "type": "bind"}]})),
        ("0.5.0", spec({"deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/b"}]})),
        ("0.5.0", spec(devices=[{"name": "0a", "containerEdits": NODE}])),
        ("0.6.0", spec(annotations={"a": "b"})),
        ("0.6.0", spec(kind="vendor.com/class.part")),
        ("0.7.0", spec({"additionalGids": [0]})),
        ("0.7.0", spec({"intelRdt": {"closID": "/"}})),
        ("1.1.0", spec({"intelRdt": {"schemata": []}})),
        ("1.1.0", spec({"netDevices": [{"hostInterfaceName": "a", "name": "b"}]})),
    ],
)
def test_content_needs_a_version(version: str, document: JsonObject) -> None:
    """A spec that declares less than its content needs is refused, more is fine."""
    order = ["0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"]
    assert minimum_version(parse({**document, "cdiVersion": "1.1.0"})) == version
    for lower in order[: order.index(version)]:
        with pytest.raises(SpecError, match=f"{version} is needed"):
            parse({**document, "cdiVersion": lower})


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", "0.3.1", "1.2.0", "", "1.0"])
def test_unknown_versions_are_refused(version: str) -> None:
    """Only released versions from 0.3.0 on can load."""
    with pytest.raises(SpecError, match="version"):
        parse(spec(cdiVersion=version))


def test_a_leading_v_is_tolerated() -> None:
    """The library accepts a `v` before the version."""
    assert parse(spec(cdiVersion="v0.5.0")).kind == "vendor.com/class"


def test_null_means_not_set() -> None:
    """A null member is as good as none."""
    assert parse(spec({"env": ["A=1"], "mounts": None}, annotations=None)).annotations == {}


@pytest.mark.parametrize(
    "document",
    [
        spec(unknown=1),
        spec({"env": ["A=1"], "unknown": 1}),
        spec(kind="vendor"),
        spec(kind="vendor.com/a/b"),
        spec(kind="1vendor.com/class"),
        spec(kind="vendor.com/class-"),
        spec(devices=[]),
        spec(devices=[{"name": "a", "containerEdits": {}}]),
        spec(devices=[{"name": "a", "containerEdits": NODE}] * 2),
        spec(devices=[{"name": "a=b", "containerEdits": NODE}]),
        spec({"env": ["A"]}),
        spec({"env": ["=A"]}),
        spec({"deviceNodes": [{"path": ""}]}),
        spec({"deviceNodes": [{"path": "/a", "type": "x"}]}),
        spec({"deviceNodes": [{"path": "/a", "permissions": "rwx"}]}),
        spec({"deviceNodes": [{"path": "/a", "minor": -1}]}),
        spec({"intelRdt": {"closID": "a/b"}}),
        spec({"netDevices": [{"hostInterfaceName": "a", "name": name} for name in "bc"]}),
        spec({"deviceNodes": [{"path": "/a", "fileMode": "0666"}]}),
        spec({"hooks": [{"hookName": "later", "path": "/a"}]}),
        spec({"hooks": [{"hookName": "poststop", "path": ""}]}),
        spec({"mounts": [{"hostPath": "/a"}]}),
    ],
)
def test_bad_content_is_refused(document: JsonObject) -> None:
    """The whole file is refused for any one fault."""
    with pytest.raises(SpecError):
        parse({**document, "cdiVersion": "1.1.0"})


def test_empty_values_and_odd_names_are_accepted() -> None:
    """An empty value and a name with a space are the container's business."""
    edits = parse(spec({"env": ["A=", "B C=1", "D=a\nb=c"]})).devices[0].container_edits
    assert edits.env == ("A=", "B C=1", "D=a\nb=c")
