"""Tests of how a scheduler's words are read."""

import pytest

from tests.cluster.vectors.answers import placed, refused

TAIL = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."


@pytest.mark.parametrize(
    ("reason", "message", "kinds"),
    [
        (
            "Unschedulable",
            (
                f"0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
                f"2 cannot allocate all claims. still not schedulable, {TAIL}"
            ),
            {"none": 2},
        ),
        (
            "Unschedulable",
            (
                f"0/2 nodes are available: 1 cannot allocate all claims, "
                f"1 invalid resource pools were encountered. {TAIL}"
            ),
            {"node": 1, "none": 1},
        ),
        (
            "Unschedulable",
            f"0/1 nodes are available: request gpu: device class x does not exist. {TAIL}",
            {"class": 1},
        ),
        ("Unschedulable", f"0/1 nodes are available: 1 Insufficient a/b. {TAIL}", {"other": 1}),
        ("SchedulerError", 'running "DynamicResources" filter plugin: claim', "fatal"),
    ],
)
def test_kind_of_refusal(reason: str, message: str, kinds: object) -> None:
    """The kinds are counted by node; nodes that are not the case's are left out."""
    assert refused({"reason": reason, "message": message})["refused"] == kinds


def test_what_differs_each_time_is_left_out() -> None:
    """Times are dropped, and share ids become stars."""
    result = {"device": "g", "shareID": "00000000-0000-4000-8000-000000000001"}
    allocation = {"allocationTimestamp": "now", "devices": {"results": [result]}}
    answer = placed("a", [allocation])
    assert answer["allocations"] == [{"devices": {"results": [{"device": "g", "shareID": "*"}]}}]


def test_one_share_is_not_given_twice() -> None:
    """Two results with one share id are an error."""
    result = {"device": "g", "shareID": "00000000-0000-4000-8000-000000000001"}
    with pytest.raises(AssertionError):
        placed("a", [{"devices": {"results": [result, result]}}])
