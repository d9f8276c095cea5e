"""What Volcano's extender plugin asks; fields as its Go types write them."""

import json
from typing import Any

import pytest

from extender.metrics import Metrics
from extender.parts import Failed, NotAsked, Unfit
from extender.routes.volcano import REASON, Volcano
from tests.extender.standins import ScriptedChooser

# Volcano marshals api.TaskInfo and api.NodeInfo, which have no tags.
_POD = {
    "metadata": {"name": "job-0", "namespace": "default", "uid": "u"},
    "spec": {"containers": [{"name": "c"}], "schedulerName": "volcano"},
}
_TASK = {
    "UID": "u",
    "Job": "default/job",
    "Name": "job-0",
    "Namespace": "default",
    "TaskRole": "worker",
    "Resreq": {"MilliCPU": 1000, "Memory": 0, "ScalarResources": None, "MaxTaskNum": 0},
    "NodeName": "",
    "Status": 1,
    "Priority": 1,
    "Pod": _POD,
}


def _node(name: str) -> dict[str, Any]:
    return {"Name": name, "Node": {"metadata": {"name": name}}, "Idle": {}, "Tasks": {}}


def _volcano(dry: Any) -> tuple[Volcano, ScriptedChooser]:
    chooser = ScriptedChooser(dry=dry)
    return Volcano(chooser, Metrics()), chooser


def test_tasks_without_devices_pass() -> None:
    """No message and code 0; all nodes are alike."""
    volcano, chooser = _volcano(NotAsked())
    body = json.dumps({"task": _TASK, "node": _node("n1")}).encode()
    assert json.loads(volcano.predicate(body)) == {"status": "", "code": 0}
    assert chooser.asked == [(_POD, ())]
    body = json.dumps({"task": _TASK, "nodes": [_node("n1"), _node("n2")]}).encode()
    assert json.loads(volcano.prioritize(body)) == {
        "nodeScore": {"n1": 0, "n2": 0},
        "errorMessage": "",
    }


@pytest.mark.parametrize("dry", [Unfit(failed={}), Failed("odd")])
def test_tasks_with_devices_are_refused_with_the_reason(dry: Any) -> None:
    """Code 3 tells Volcano that evicting others would not help."""
    volcano, _ = _volcano(dry)
    body = json.dumps({"task": _TASK, "node": _node("n1"), "nodes": [_node("n1")]}).encode()
    assert json.loads(volcano.predicate(body)) == {"status": REASON, "code": 3}
    assert json.loads(volcano.prioritize(body)) == {"nodeScore": None, "errorMessage": REASON}


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{}", b'{"task":1}', b'{"task":{"Pod":null}}', b"\xff"]
)
def test_odd_bodies_are_errors_in_band(body: bytes) -> None:
    """Volcano reads nothing but the answer."""
    volcano, _ = _volcano(NotAsked())
    said = json.loads(volcano.predicate(body))
    assert said["status"]
    assert said["code"] == 1
    assert json.loads(volcano.prioritize(body))["errorMessage"]
