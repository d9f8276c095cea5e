"""Which devices somebody else on the node offers too."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.rivals import PluginResources, Rival, driver_rivals, find_rivals, plugin_rivals
from gpu import names
from gpu.model import Gpu, GpuUuid
from kube.objects import JsonObject
from tests.dra.builders import NODE, a_gpu, a_mig_gpu, an_inventory

WHOLE, OTHER, SPLIT = a_gpu(0), a_gpu(1), a_mig_gpu(2)
PARTS = tuple(mig.uuid for mig in SPLIT.mig_devices)
NODE_GPUS = (WHOLE, OTHER, SPLIT)
ALL = {WHOLE.uuid, OTHER.uuid, *PARTS}
NVIDIA = "gpu.nvidia.com"


def a_node(allocatable: Any, **labels: str) -> JsonObject:
    """Return a Node that offers *allocatable* besides its processors."""
    return {
        "metadata": {"name": NODE, "labels": {f"nvidia.com/{k}": v for k, v in labels.items()}},
        "status": {"allocatable": {"cpu": "8", "pods": "110", **allocatable}},
    }


def by_plugin(
    allocatable: Mapping[str, Any], strategy: str | None = None, **options: PluginResources
) -> dict[str, set[GpuUuid]]:
    """Return which resource offers which of our devices."""
    node = a_node(allocatable, **({"mig.strategy": strategy} if strategy else {}))
    found = plugin_rivals(an_inventory(*NODE_GPUS), node, **options)
    return by_source(found)


def by_source(found: Mapping[GpuUuid, Rival]) -> dict[str, set[GpuUuid]]:
    """Return the devices of each source."""
    sources = {rival.source for rival in found.values()}
    return {
        source: {uuid for uuid, rival in found.items() if rival.source == source}
        for source in sources
    }


def a_slice(*devices: Any, driver: str = NVIDIA, **spec: Any) -> JsonObject:
    """Return a slice of another driver on this node."""
    pool = {"name": NODE, "generation": 3, "resourceSliceCount": 7}
    fields = {"driver": driver, "nodeName": NODE, "pool": pool, "devices": list(devices)}
    return {"metadata": {"name": "theirs"}, "spec": fields | spec}


def a_device(name: str = "gpu-0", **attributes: str) -> JsonObject:
    """Return a device with *attributes*, `__` standing for the end of a domain."""
    said = {key.replace("__", "/"): {"string": text} for key, text in attributes.items()}
    return {"name": name, "attributes": said}


def on_bus(text: str, **attributes: str) -> JsonObject:
    """Return a device with the standard attribute for its PCI bus id."""
    device = a_device(**attributes)
    device["attributes"][names.ATTRIBUTE_PCI_BUS_ID] = {"string": text}
    return device


def shared_with(*slices: JsonObject, gpus: tuple[Gpu, ...] = NODE_GPUS) -> set[GpuUuid]:
    """Return our devices that *slices* offer too."""
    return set(driver_rivals(an_inventory(*gpus), slices, node_name=NODE))


@pytest.mark.parametrize("amount", ["0", "-1", "0k"])
def test_nothing_to_give_is_no_rival(amount: str) -> None:
    """Kubelet keeps a resource at zero after its plugin has gone."""
    assert by_plugin({"nvidia.com/gpu": amount, "nvidia.com/mig-1g.5gb": amount}) == {}


@pytest.mark.parametrize("amount", ["1", 8, "1k", "", "many", None, "9" * 99, [], True], ids=str)
def test_an_amount_that_cannot_be_read_counts(amount: Any) -> None:
    """Only what is surely nothing is taken for nothing."""
    assert by_plugin({"nvidia.com/gpu": amount}) == {"nvidia.com/gpu": ALL}


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "nvidia.com/gpu.shared"])
@pytest.mark.parametrize("strategy", [None, "single", "none"])
def test_gpus_of_the_plugin_may_be_partitions(name: str, strategy: str | None) -> None:
    """With MIG strategy `single` they are, and nothing but a label tells."""
    assert by_plugin({name: "8"}, strategy) == {name: ALL}


def test_with_partitions_of_their_own_gpus_are_whole() -> None:
    """The strategy is `mixed` then, and a label says so too."""
    whole = {WHOLE.uuid, OTHER.uuid}
    assert by_plugin({"nvidia.com/gpu": "8"}, "mixed") == {"nvidia.com/gpu": whole}
    found = by_plugin({"nvidia.com/gpu": "8", "nvidia.com/mig-1g.5gb.shared": "2"})
    assert found == {"nvidia.com/gpu": whole, "nvidia.com/mig-1g.5gb.shared": set(PARTS)}
    assert by_plugin({"nvidia.com/mig-3g.20gb": "2"}) == {"nvidia.com/mig-3g.20gb": set(PARTS)}


def test_other_resources_say_nothing_of_gpus() -> None:
    """Nor do resources of ours, once they are left out of the names."""
    assert by_plugin({"amd.com/gpu": "8", "nvidia.com/gpumem": "100"}) == {}
    others = PluginResources(gpus=frozenset({"nvidia.com/gpu.shared"}), partition_prefixes=())
    amounts = {"nvidia.com/gpu": "8", "nvidia.com/mig-1g.5gb": "1"}
    assert by_plugin(amounts, resources=others) == {}


def test_a_node_that_is_not_known_has_no_plugin() -> None:
    """It may be gone."""
    assert plugin_rivals(an_inventory(WHOLE), None) == {}


@pytest.mark.parametrize(
    "text", ["0000:10:00.0", "00000000:10:00.0", "10:00.0", " 0000:10:00.0 "], ids=str
)
def test_the_bus_names_a_gpu(text: str) -> None:
    """Whether the driver writes it as sysfs or as NVML does."""
    assert shared_with(a_slice(on_bus(text))) == {WHOLE.uuid}


def test_the_case_of_a_bus_says_nothing() -> None:
    """Hexadecimal digits may be capital letters."""
    gpu = a_gpu(0xAF - 16)
    assert shared_with(a_slice(on_bus("0000:AF:00.0")), gpus=(gpu, WHOLE)) == {gpu.uuid}


@pytest.mark.parametrize(
    "device",
    [
        a_device(pciBusID="0000:10:00.0"),
        a_device(uuid=WHOLE.uuid),
        a_device(UUID=WHOLE.uuid.upper()),
        a_device(gpu__uuid=WHOLE.uuid),
        a_device(parentUUID=WHOLE.uuid, uuid="MIG-of-another-time"),
        {"name": "x", "attributes": {"uuid": {"strings": ["GPU-0", WHOLE.uuid]}}},
    ],
    ids=["bus", "uuid", "capitals", "domain", "parent", "list"],
)
def test_a_gpu_is_found_by_what_its_drivers_call_it(device: JsonObject) -> None:
    """Attributes stand under their drivers' domains."""
    assert shared_with(a_slice(device)) == {WHOLE.uuid}


def test_partitions_of_others_concern_their_gpu() -> None:
    """A GPU that we offer whole is cut by somebody else."""
    partition = on_bus(str(WHOLE.pci_bus_id), uuid="MIG-unknown", profile="1g.5gb")
    assert shared_with(a_slice(partition)) == {WHOLE.uuid}


def test_a_partition_concerns_itself_alone() -> None:
    """Its neighbours on the GPU are not offered by that device."""
    partition = on_bus(str(SPLIT.pci_bus_id), uuid=PARTS[0], parentUUID=SPLIT.uuid)
    assert shared_with(a_slice(partition)) == {PARTS[0]}


@pytest.mark.parametrize(
    "device", [a_device(uuid=SPLIT.uuid), on_bus(str(SPLIT.pci_bus_id))], ids=["uuid", "bus"]
)
def test_a_whole_gpu_of_others_concerns_all_partitions(device: JsonObject) -> None:
    """It could be given to somebody with all that is on it."""
    assert shared_with(a_slice(device)) == set(PARTS)


def test_own_slices_are_no_rivals() -> None:
    """The driver's name is ours."""
    assert shared_with(a_slice(a_device(uuid=WHOLE.uuid), driver=names.DRIVER)) == set()


def test_the_bus_of_another_node_is_another_bus() -> None:
    """Every node has the same ones, and a UUID is the same everywhere."""
    elsewhere = a_slice(on_bus(str(OTHER.pci_bus_id)), a_device(uuid=WHOLE.uuid), nodeName="node-2")
    assert shared_with(elsewhere) == {WHOLE.uuid}
    here = on_bus(str(OTHER.pci_bus_id)) | {"nodeName": NODE}
    assert shared_with(a_slice(here, nodeName=None, perDeviceNodeSelection=True)) == {OTHER.uuid}


def test_what_others_have_besides_gpus_is_theirs() -> None:
    """Network cards have a bus too."""
    card = on_bus("0000:99:00.0", uuid="a-card")
    assert shared_with(a_slice(card, {"name": "bare"}), a_slice(driver="empty")) == set()


def test_an_incomplete_pool_counts() -> None:
    """So does one that is about to be replaced."""
    pool = {"name": NODE, "generation": 0, "resourceSliceCount": 99}
    assert shared_with(a_slice(a_device(uuid=WHOLE.uuid), pool=pool)) == {WHOLE.uuid}


def test_the_answer_does_not_hang_on_the_order() -> None:
    """Otherwise the taint would change with each look."""
    slices = [a_slice(a_device(uuid=WHOLE.uuid), driver=name) for name in ("b.com", "a.com")]
    for order in (slices, slices[::-1]):
        (rival,) = driver_rivals(an_inventory(WHOLE), order, node_name=NODE).values()
        assert rival == Rival(source="a.com", message="driver a.com offers it as gpu-0 too")


def test_a_device_plugin_is_named_first() -> None:
    """All sources are asked, and one is named."""
    found = find_rivals(
        an_inventory(*NODE_GPUS),
        a_node({"nvidia.com/mig-1g.5gb": "1"}),
        [a_slice(a_device(uuid=PARTS[0]), a_device(uuid=OTHER.uuid))],
        node_name=NODE,
    )
    assert by_source(found) == {NVIDIA: {OTHER.uuid}, "nvidia.com/mig-1g.5gb": set(PARTS)}


KEYS = st.one_of(
    st.sampled_from(["metadata", "labels", "status", "allocatable", "nvidia.com/gpu"]),
    st.sampled_from(["spec", "driver", "nodeName", "devices", "name", "attributes"]),
    st.sampled_from(["uuid", "parentUUID", "x/pciBusID", "string", "strings"]),
    st.text(max_size=5),
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=100),
    st.sampled_from([NODE, WHOLE.uuid, PARTS[0], str(OTHER.pci_bus_id), "nvidia.com/mig-x"]),
)
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
)
DEVICES = ANYTHING | st.builds(lambda odd: {"name": "x", "attributes": odd}, ANYTHING)


@given(
    ANYTHING | st.builds(lambda odd: {"status": {"allocatable": odd}}, ANYTHING),
    st.lists(ANYTHING | st.builds(a_slice, DEVICES, driver=LEAVES)),
)
def test_odd_objects_are_no_exceptions(node: Any, slices: list[Any]) -> None:
    """What is said of our devices is short ASCII, whatever others write."""
    found = find_rivals(an_inventory(*NODE_GPUS), node, slices, node_name=NODE)
    assert found.keys() <= ALL
    for rival in found.values():
        assert rival.source
        assert rival.message.isascii()
        assert len(rival.message) <= 200
