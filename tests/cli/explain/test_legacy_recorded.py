"""What is explained is what HAMi v2.10.0 answered, or differs as the extender does.

Each recorded question is put to the extender as well as explained from the objects as they are.
"""

import json
from collections.abc import Iterator

import pytest

from cli.explain import protocol
from cli.explain.legacy import Terms, explain_legacy
from hami.deviceconfig import DeviceConfig
from hami.vendors import from_sections
from kube.objects import ObjectKey, key_of
from sim.explain.model import Explanation, Verdict
from sim.explain.nodereasons import CANNOT_ALLOCATE
from tests.cli.explain.legacyworld import SCHEDULER, material, now
from tests.extender.recorded import Json, Play, Scenario, scenarios
from tests.extender.recorded_memory import MemoryDriver

CONFIG = DeviceConfig(vendors=from_sections({}, ascend=True, iluvatar=True))
SCENARIOS = tuple(scenarios())


class ExplainingDriver(MemoryDriver):
    """Explains each pod whose nodes are asked for, before it is decided about."""

    def __init__(self) -> None:
        super().__init__()
        self.compared = 0
        self._objects: dict[tuple[str, ObjectKey], Json] = {}

    def put_node(self, node: Json) -> None:
        """Make or replace a node."""
        self._objects["Node", key_of(node)] = {**node, "kind": "Node"}
        super().put_node(node)

    def put_quota(self, quota: Json) -> None:
        """Make a ResourceQuota."""
        self._objects["ResourceQuota", key_of(quota)] = {**quota, "kind": "ResourceQuota"}
        super().put_quota(quota)

    def put_pod(self, pod: Json) -> Json:
        """Make or replace a pod."""
        stored = super().put_pod(pod)
        self._objects["Pod", key_of(stored)] = {**stored, "kind": "Pod"}
        return stored

    def drop_pod(self, pod: Json) -> None:
        """Delete a pod."""
        del self._objects["Pod", key_of(pod)]
        super().drop_pod(pod)

    def filter(self, body: bytes) -> bytes:
        """Return the answer, once it is what is explained."""
        question = json.loads(body)
        uid = (question.get("Pod") or {}).get("metadata", {}).get("uid")
        others = any(each.uid != uid for each in self._cluster.promises())
        answer = super().filter(body)
        # What is promised to others shows in no object, and nodes that are sent count as empty.
        if question.get("NodeNames") and not others:
            self._compare(question["Pod"], question["NodeNames"], json.loads(answer))
            self.compared += 1
        return answer

    def _compare(self, pod: Json, names: list[str], answer: Json) -> None:
        listed = (
            item
            for (kind, key), item in self._objects.items()
            if kind != "Node" or key.name in names
        )
        cluster = material(listed, now())
        said = None
        if protocol.decides(pod, cluster.snapshot, CONFIG):
            found = cluster.snapshot.pods[key_of(pod)]
            said = explain_legacy(cluster, found, Terms(config=CONFIG, scheduler_name=SCHEDULER))
        if said is None:
            assert answer["NodeNames"] == names
        elif answer["Error"]:
            assert "; ".join(map(str, said.reasons)) in answer["Error"]
            assert said.nodes == ()
        elif answer["NodeNames"]:
            assert said.verdict is Verdict.FITS
            assert [said.node] == answer["NodeNames"]
        else:
            _refused_alike(said, answer["FailedNodes"])


def _refused_alike(said: Explanation, failed: dict[str, str]) -> None:
    for reason in said.nodes:
        refusal, text = reason.refusal, failed[reason.node]
        match refusal.code:
            case code if code == CANNOT_ALLOCATE:
                assert refusal.value == text
                # What is refused for what lies between devices is refused to none of them alone.
                assert reason.devices
            case "NodeUnregistered":
                assert text == "node unregistered"
            case "NodeClosed" | "RegistrationUnusable":
                assert refusal.value == text
            case code:
                assert code == text


@pytest.fixture
def driver() -> Iterator[ExplainingDriver]:
    """Return an extender that knows nothing yet."""
    made = ExplainingDriver()
    yield made
    made.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_explanations_are_the_recorded_answers(
    scenario: Scenario, driver: ExplainingDriver
) -> None:
    """Node, refusal of each node and refusal of the pod are the same."""
    Play(scenario, driver).run()


def test_the_cases_are_looked_at() -> None:
    """Most questions are explained, so that the comparison means something."""
    compared = 0
    for scenario in SCENARIOS:
        made = ExplainingDriver()
        Play(scenario, made).run()
        compared += made.compared
        made.close()
    assert compared > len(SCENARIOS) / 2
