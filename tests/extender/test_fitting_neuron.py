"""AWS Neuron: rows of devices, and cores as bits."""

import pytest

from extender.model import NodeUsage
from tests.extender.nodes import (
    container,
    fit,
    limited,
    placed,
    pod,
    text,
)
from tests.extender.vendornodes import NOW_NS, made_up

TRAINIUM = {"aws.amazon.com/neuron": "16", "aws.amazon.com/neuroncore": "32"}
TYPE_LABEL = "node.kubernetes.io/instance-type"


def neurons(instance_type: str, *used: int) -> NodeUsage:
    """Return a node of 16 devices of two cores."""
    found: NodeUsage = made_up("AWSNeuron", **{TYPE_LABEL: instance_type})(TRAINIUM, *used)
    return found


@pytest.mark.parametrize(
    ("instance_type", "used", "count", "expected"),
    [
        ("trn1.32xlarge", (), 4, "0,1,2,3"),
        ("trn1.32xlarge", (2,), 4, "4,5,6,7"),
        ("trn1.32xlarge", (), 2, "1/16 NumaNotFit"),
        ("inf2.48xlarge", (2,), 3, "3,4,5"),
        ("inf2.48xlarge", tuple(range(0, 16, 3)), 3, "1/16 NumaNotFit"),
        ("trn1.32xlarge", (), 1, "15"),
    ],
)
def test_several_neuron_devices_are_in_a_row(
    instance_type: str, used: tuple[int, ...], count: int, expected: str
) -> None:
    """Anywhere on Inferentia, aligned elsewhere."""
    found = fit(neurons(instance_type, *used), pod(limited(**{"aws.amazon.com/neuron": count})))
    if "/16" in expected:
        assert text(found) == expected
    else:
        assert placed(found).annotations["AWS_NEURON_IDS"] == expected
        assert "NEURON_RESOURCE_TYPE" not in placed(found).annotations


def test_neuron_cores_are_bits_and_told_by_number() -> None:
    """A second core joins the first, and a whole device is taken from an idle one."""
    on = neurons("trn1.2xlarge")
    on.devices["AWSNeuron"] = on.devices["AWSNeuron"][:2]
    on.devices["AWSNeuron"][1].used_slots = on.devices["AWSNeuron"][1].used_cores = 1
    raw = pod(container("a", **{"aws.amazon.com/neuroncore": 1}))
    only = {"aws.amazon.com/use-neuron-uuid": "n-AWSNeuron-1"}
    found = placed(fit(on, pod(*raw["spec"]["containers"], annotations=only)))
    assert text(found, "AWSNeuron") == "n-AWSNeuron-1,AWSNeuron,0,2:;"
    assert found.annotations == {
        "AWS_NEURON_IDS": "3",
        "NEURON_ALLOC_TIME": NOW_NS,
        "NEURON_ALLOCATED": "false",
        "NEURON_RESOURCE_TYPE": "aws.amazon.com/neuroncore",
        "aws.amazon.com/predicate-node": "n",
    }
    two = pod(
        container("a", **{"aws.amazon.com/neuroncore": 1}),
        container("b", **{"aws.amazon.com/neuron": 1}),
        annotations={"hami.io/gpu-scheduler-policy": "binpack"},
    )
    whole = placed(fit(on, two))
    assert text(whole, "AWSNeuron") == "n-AWSNeuron-1,AWSNeuron,0,2:;n-AWSNeuron-0,AWSNeuron,0,3:;"
    assert whole.annotations["AWS_NEURON_IDS"] == "3,0"


def test_neuron_devices_run_out_of_cores() -> None:
    """Bits that are in use are not given again."""
    on = neurons("inf2.xlarge")
    on.devices["AWSNeuron"] = on.devices["AWSNeuron"][:1]
    on.devices["AWSNeuron"][0].used_slots = on.devices["AWSNeuron"][0].used_cores = 1
    raw = pod(limited(**{"aws.amazon.com/neuroncore": 2}))
    assert text(fit(on, raw)) == "1/1 CardInsufficientCore"
