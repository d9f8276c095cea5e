"""Tests of reading and writing specs."""

import json
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdi.errors import SpecError
from cdi.spec import ContainerEdits, Device, DeviceNode, Hook, Mount, Spec, canonical, render
from cdi.wire import Part

PartT = TypeVar("PartT", bound=Part)
HERE = Path(__file__).parent
VERDICTS: dict[str, dict[str, bool]] = json.loads((HERE / "verdicts.json").read_text())


def accepts(data: bytes) -> bool:
    """Tell whether our reader takes *data*."""
    try:
        Spec.parse(data)
    except SpecError:
        return False
    return True


def document(**edits: Any) -> bytes:
    """Return a valid spec of version 1.1.0 whose only device has *edits*."""
    devices = [{"name": "dev0", "containerEdits": edits}]
    return json.dumps(
        {"cdiVersion": "1.1.0", "kind": "vendor.com/device", "devices": devices}
    ).encode()


def test_every_verdict_has_its_file() -> None:
    """The index and the files on disk name the same 59 cases."""
    assert {path.stem for path in (HERE / "verdicts").iterdir()} == set(VERDICTS)
    assert len(VERDICTS) == 59


@pytest.mark.parametrize("case", sorted(VERDICTS))
def test_reader_agrees_with_the_library(case: str) -> None:
    """A document passes exactly when the Go library let it pass."""
    data = (HERE / "verdicts" / f"{case}.json").read_bytes()
    assert accepts(data) is VERDICTS[case]["library"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"kind": 1, "kind": 2}', "twice"),
        (b'{"kind": NaN}', "NaN"),
        (b"[]", "valid dictionary"),
        (b"null", "valid dictionary"),
        (document(env=["A=b"], ENV=["A=c"]), "twice"),
        (document(container_path=1), "Extra inputs"),
        (document(mounts=[{"host_path": "/a", "containerPath": "/b"}]), "hostPath"),
        (document(unknown=None), "unknown"),
        (document(deviceNodes=[None]), "deviceNodes.0"),
        (document(netDevices=[{"hostInterfaceName": "a", "name": "b"}] * 2), "twice"),
    ],
)
def test_unreadable_documents_are_named(data: bytes, said: str) -> None:
    """What is no document of the format is refused with a word on why."""
    with pytest.raises(SpecError, match=said):
        Spec.parse(data)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (True, "true"),
        (1.5, "1.5"),
        (2.0, "2"),
        (1e10, "1e+10"),
        (1234567.5, "1.2345675e+06"),
    ],
)
def test_scalars_become_text_as_in_go(value: object, text: str) -> None:
    """Numbers and truth values that stand for a text are written as the library writes them."""
    parsed = Spec.parse(
        document(env=["A=b"], hooks=[{"hookName": "prestart", "path": "/h", "args": [value, None]}])
    )
    assert parsed.devices[0].container_edits.hooks[0].args == (text, "")


def test_null_and_whole_floats_are_read_as_numbers() -> None:
    """Null in a list of numbers is 0, and a float without a fraction is whole."""
    parsed = Spec.parse(document(additionalGids=[None, 3.0]))
    assert parsed.devices[0].container_edits.additional_gids == (0, 3)


def models(model: type[PartT], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[PartT]:
    """Draw models; `st.builds` would also fill the aliases that it sees in the signature."""
    return st.fixed_dictionaries(fields).map(lambda values: model(**values))


NAMES = st.sampled_from(["A", "B", "C_1", "odd name"])
PATHS = st.sampled_from(["/a", "/b", "/b/c", "/b/c/d", "/é"])
ENV = st.builds("{}={}".format, NAMES, st.text(st.characters(codec="utf-8"), max_size=4))
NODES = models(
    DeviceNode,
    path=PATHS,
    host_path=st.sampled_from(["", "/x"]),
    type=st.sampled_from(["", "c", "b"]),
    major=st.none() | st.integers(0, 500),
    minor=st.none() | st.integers(0, 500),
    permissions=st.sampled_from(["", "rw", "rwm"]),
)
MOUNTS = models(
    Mount,
    host_path=PATHS,
    container_path=PATHS,
    options=st.lists(st.sampled_from(["ro", "bind"]), max_size=2).map(tuple),
)
HOOKS = models(Hook, hook_name=st.just("createContainer"), path=PATHS)
EDITS = models(
    ContainerEdits,
    env=st.lists(ENV, min_size=1, max_size=4).map(tuple),
    device_nodes=st.lists(NODES, max_size=4).map(tuple),
    mounts=st.lists(MOUNTS, max_size=4).map(tuple),
    hooks=st.lists(HOOKS, max_size=2).map(tuple),
    additional_gids=st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple),
)
ANNOTATIONS = st.dictionaries(NAMES, st.text(st.characters(codec="utf-8"), max_size=3))
SPECS = models(
    Spec,
    cdi_version=st.just("1.1.0"),
    kind=st.just("vendor.com/device"),
    annotations=ANNOTATIONS,
    container_edits=EDITS,
    devices=st.lists(
        models(
            Device,
            name=st.sampled_from(["0", "a", "b:c"]),
            annotations=ANNOTATIONS,
            container_edits=EDITS,
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda device: device.name,
    ).map(tuple),
)


@given(SPECS)
def test_written_specs_read_back(spec: Spec) -> None:
    """What is rendered parses to the canonical spec and renders to the same bytes."""
    data = render(spec)
    assert Spec.parse(data) == canonical(spec)
    assert render(Spec.parse(data)) == data
    assert b":null" not in data


@given(SPECS, st.randoms(use_true_random=False))
def test_order_without_meaning_leaves_no_trace(spec: Spec, random: Any) -> None:
    """Shuffling devices, variables, nodes and mounts changes no byte."""
    whole = canonical(spec)

    def shuffled(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(random.sample(items, len(items)))

    def mixed(edits: ContainerEdits) -> ContainerEdits:
        lists = ("env", "device_nodes", "mounts", "additional_gids")
        return edits.model_copy(update={name: shuffled(getattr(edits, name)) for name in lists})

    devices = [
        device.model_copy(update={"container_edits": mixed(device.container_edits)})
        for device in whole.devices
    ]
    other = whole.model_copy(
        update={
            "annotations": dict(shuffled(tuple(whole.annotations.items()))),
            "devices": shuffled(tuple(devices)),
            "container_edits": mixed(whole.container_edits),
        }
    )
    assert render(other) == render(spec)


def test_last_of_two_edits_stays() -> None:
    """Where two edits meet, the one that the runtime would let win is written."""
    spec = Spec(
        cdi_version="0.5.0",
        kind="vendor.com/device",
        devices=(
            Device(
                name="a",
                container_edits=ContainerEdits(
                    env=("A=1", "B=2", "A=3"),
                    mounts=(
                        Mount(host_path="/one", container_path="/m"),
                        Mount(host_path="/two", container_path="/m"),
                    ),
                ),
            ),
        ),
    )
    edits = canonical(spec).devices[0].container_edits
    assert edits.env == ("A=3", "B=2")
    assert [mount.host_path for mount in edits.mounts] == ["/two"]


def test_explicit_zeroes_survive() -> None:
    """A minor number 0 is written out, since a reader cannot tell a missing one from it."""
    spec = Spec.parse(
        document(deviceNodes=[{"path": "/dev/a", "type": "c", "major": 1, "minor": 0}])
    )
    assert b'"minor":0' in render(spec)
