"""What is kept of objects: little, and nothing that an odd object could spoil."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.state.reading import pod_reader, read_node, read_pod, read_quota
from kube.store import UnwantedError
from tests.extender.statemachine import container, pod

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def test_only_annotations_that_matter_are_kept() -> None:
    """Of a pod's annotations those of schedulers and of neighbours stay."""
    kept = {
        "hami.io/vgpu-node": "n",
        "hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,1,1:;",
        "metax-tech.com/sgpu-qos-policy": "best-effort",
    }
    asking = pod("p", container(gpu=1), annotations=kept | {"team.example/note": "x" * 1000})
    assert read_pod(asking).annotations == kept


def test_of_nodes_what_no_rule_reads_is_left_out() -> None:
    """Of a node stay the annotations of devices, the instance type and extended resources."""
    found = read_node(
        {
            "metadata": {
                "name": "n",
                "labels": {"node.kubernetes.io/instance-type": "inf2", "zone": "a"},
                "annotations": {
                    "hami.io/device-cordon": "GPU-a",
                    "hami-vnpu-core": "true",
                    "csi.example/plugin": "{}",
                },
            },
            "status": {
                "capacity": {"cpu": "8", "nvidia.com/gpu": "4"},
                "allocatable": {"memory": "1Gi", "nvidia.com/gpu": 4},
            },
        }
    )
    assert found.annotations == {"hami.io/device-cordon": "GPU-a", "hami-vnpu-core": "true"}
    assert found.labels == {"node.kubernetes.io/instance-type": "inf2"}
    assert found.capacity == {"nvidia.com/gpu": "4"}
    assert found.allocatable == {"nvidia.com/gpu": "4"}


def test_pods_that_ask_or_have_are_wanted() -> None:
    """A pod counts when a container names a resource, by whatever name where devices are on it."""
    read = pod_reader({"nvidia.com/gpu"})
    assert read(pod("asks", container(gpu=1))).name == "asks"
    assert read(pod("init", container(), inits=[container(gpu=1)])).name == "init"
    has = {"hami.io/vgpu-node": "n"}
    assert read(pod("has", container(gpumem=1), annotations=has)).name == "has"
    for unwanted in (
        pod("other", container(gpumem=1)),
        pod("zero", container(gpu=0)),
        pod("forged", container(), annotations=has),
    ):
        with pytest.raises(UnwantedError):
            read(unwanted)


def test_group_is_read_from_label_or_spec() -> None:
    """Pod groups are named by a label, or by Kubernetes' own field."""
    labelled = pod("p", container(gpu=1))
    labelled["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "crowd"}
    own = pod("p", container(gpu=1))
    own["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
    assert [read_pod(each).group for each in (labelled, own)] == ["crowd", "gang"]
    assert read_pod(pod("p", container())).group == ""


@given(spec=_JSON, status=_JSON, annotations=_JSON)
def test_no_object_with_a_name_raises(spec: object, status: object, annotations: object) -> None:
    """Whatever stands in an object, something is made of it."""
    odd = {
        "metadata": {"name": "x", "namespace": "y", "annotations": annotations},
        "spec": spec,
        "status": status,
    }
    assert read_node(odd).name == "x"
    assert read_quota(odd).name == "x"
    assert read_pod(odd).name == "x"
