"""Which writes lead from the slices on the server to the desired ones."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dra.layout import build_slices
from dra.slice_diff import fingerprint
from dra.slice_plan import Plan, highest_generation, plan_slices

NODE_UID = "5f0e7a30-0000-4000-8000-000000000001"


def desired(*names: str, per_slice: int = 1) -> tuple[dict[str, Any], ...]:
    """Return slices with one device of each name, *per_slice* of them in each."""
    chunks = [names[start : start + per_slice] for start in range(0, len(names), per_slice)]
    slices = []
    for index, chunk in enumerate(chunks or [()]):
        (item,) = build_slices(
            [{"name": name} for name in chunk], node_name="node-1", node_uid=NODE_UID
        )
        item["metadata"]["generateName"] = f"{index:05x}-gpuslice.io-node-1-"
        item["spec"]["pool"]["resourceSliceCount"] = len(chunks or [()])
        slices.append(item)
    return tuple(slices)


class Server:
    """Keeps slices as the API server would, with names, UIDs and versions."""

    def __init__(self) -> None:
        self.slices: dict[str, dict[str, Any]] = {}
        self._count = 0

    def apply(self, plan: Plan) -> None:
        """Do all writes of *plan*."""
        for item in plan.deletes:
            del self.slices[item["metadata"]["name"]]
        for item in (*plan.updates, *plan.creates):
            self._store(item)

    def items(self) -> list[dict[str, Any]]:
        """Return what a list returns."""
        return list(self.slices.values())

    def generations(self) -> list[int]:
        """Return the generations of all slices by name."""
        return [self.slices[name]["spec"]["pool"]["generation"] for name in sorted(self.slices)]

    def _store(self, item: dict[str, Any]) -> None:
        self._count += 1
        metadata = item["metadata"] | {"resourceVersion": str(self._count)}
        if "name" not in metadata:
            metadata["name"] = metadata["generateName"] + f"{self._count:05x}"
            metadata["uid"] = f"uid-{self._count}"
            metadata["creationTimestamp"] = "2026-11-29T10:00:00Z"
        self.slices[metadata["name"]] = item | {"metadata": metadata}


def server_with(*names: str) -> Server:
    """Return a server on which the slices for *names* are published."""
    server = Server()
    server.apply(plan_slices(desired(*names), []))
    return server


def test_the_first_slices_are_generation_one() -> None:
    """An empty server gets all slices, of one generation."""
    plan = plan_slices(desired("a", "b"), [])
    assert not plan.deletes
    assert not plan.updates
    assert [item["spec"]["pool"]["generation"] for item in plan.creates] == [1, 1]


def test_nothing_changed_means_nothing_to_write() -> None:
    """Slices that are as they should be are left alone."""
    server = server_with("a", "b")
    assert plan_slices(desired("a", "b"), server.items()).is_empty()


def test_one_changed_slice_keeps_the_generation() -> None:
    """A change within one slice is one update of it."""
    server = server_with("a", "b")
    plan = plan_slices(desired("a", "c"), server.items())
    assert len(plan.updates) == 1
    assert not plan.creates
    assert not plan.deletes
    server.apply(plan)
    assert server.generations() == [1, 1]


def test_two_changed_slices_get_a_new_generation() -> None:
    """Consumers must not mix two halves of a change."""
    server = server_with("a", "b", "c")
    plan = plan_slices(desired("x", "b", "y"), server.items())
    assert len(plan.updates) == 3
    server.apply(plan)
    assert server.generations() == [2, 2, 2]


def test_one_slice_more_or_less_gets_a_new_generation() -> None:
    """A change of the set of slices is told by all of them."""
    server = server_with("a", "b")
    server.apply(plan_slices(desired("a", "b", "c"), server.items()))
    assert server.generations() == [2, 2, 2]
    plan = plan_slices(desired("a", "b"), server.items())
    assert [item["metadata"]["name"][:5] for item in plan.deletes] == ["00002"]
    server.apply(plan)
    assert server.generations() == [3, 3]


def test_a_deleted_slice_comes_back_in_a_new_generation() -> None:
    """Whoever deletes a slice, the pool is whole again and newer."""
    server = server_with("a", "b")
    del server.slices[min(server.slices)]
    server.apply(plan_slices(desired("a", "b"), server.items()))
    assert server.generations() == [2, 2]
    server.slices.clear()
    server.apply(plan_slices(desired("a", "b"), [], last_generation=2))
    assert server.generations() == [3, 3]


def test_leftovers_of_an_interrupted_change_are_deleted() -> None:
    """Slices of an older generation go, without a change of the current ones."""
    server = server_with("a", "b")
    old = server.items()
    server.apply(plan_slices(desired("x", "y"), server.items()))
    leftover = old[0] | {"metadata": old[0]["metadata"] | {"name": "00000-old", "uid": "old"}}
    plan = plan_slices(desired("x", "y"), [*server.items(), leftover])
    assert plan == Plan(deletes=(leftover,))


def test_slices_of_another_pool_are_deleted() -> None:
    """All slices of this driver on this node are ours, also under an earlier pool name."""
    server = server_with("a")
    other = server_with("a").items()[0]
    other["metadata"]["name"] = "00000-other"
    other["spec"]["pool"]["name"] = "node-1/gpu"
    other["spec"]["pool"]["generation"] = 40
    assert plan_slices(desired("a"), [other, *server.items()]) == Plan(deletes=(other,))


def test_foreign_edits_are_undone() -> None:
    """Devices, counts and owners that somebody changed are put back."""
    server = server_with("a")
    (item,) = server.items()
    edited = item | {"spec": item["spec"] | {"devices": [{"name": "a", "bindsToNode": True}]}}
    miscounted = item | {
        "spec": item["spec"] | {"pool": item["spec"]["pool"] | {"resourceSliceCount": 7}}
    }
    orphan = item | {"metadata": item["metadata"] | {"ownerReferences": []}}
    for bad in (edited, miscounted, orphan):
        (update,) = plan_slices(desired("a"), [bad]).updates
        assert fingerprint(update["spec"]) == fingerprint(item["spec"])
        assert update["metadata"]["ownerReferences"] == item["metadata"]["ownerReferences"]
        assert update["metadata"]["resourceVersion"] == item["metadata"]["resourceVersion"]


def test_an_update_keeps_what_others_put_into_the_metadata() -> None:
    """Labels and annotations of others survive; the server's own bookkeeping is not sent."""
    server = server_with("a")
    (item,) = server.items()
    item["metadata"] |= {"labels": {"x": "y"}, "managedFields": [{"manager": "m"}]}
    (update,) = plan_slices(desired("b"), [item]).updates
    assert update["metadata"]["labels"] == {"x": "y"}
    assert "managedFields" not in update["metadata"]


def test_two_processes_agree_on_duplicates() -> None:
    """When both created the missing slice, both delete the same one, whatever the list order."""
    server = server_with("a")
    (first,) = server.items()
    second = first | {
        "metadata": first["metadata"]
        | {"name": "00000-zzz", "uid": "z", "creationTimestamp": "2026-11-29T10:00:01Z"}
    }
    plans = [plan_slices(desired("a"), items) for items in ([first, second], [second, first])]
    assert plans[0] == plans[1]
    assert plans[0].deletes == (second,)
    assert highest_generation(plans[0].updates) == 2


def test_a_loss_to_live_with_is_no_difference() -> None:
    """What the server makes of a spec for good is not sent again and again."""
    server = server_with("a")
    (item,) = server.items()
    kept = item | {"spec": item["spec"] | {"devices": [{"name": "a", "bindsToNode": True}]}}
    accepted = {fingerprint(desired("a")[0]["spec"]): fingerprint(kept["spec"])}
    assert plan_slices(desired("a"), [kept], accepted=accepted).is_empty()
    assert not plan_slices(desired("b"), [kept], accepted=accepted).is_empty()


def test_times_of_taints_survive_an_update() -> None:
    """A change beside a taint does not reset the time since which it holds."""
    taint = {"key": "gpuslice.io/xid", "effect": "NoExecute"}
    timed = taint | {"timeAdded": "2026-11-29T10:00:00Z"}
    (want,) = desired("a", "b", per_slice=2)
    want["spec"]["devices"] = [{"name": "a", "taints": [taint]}, {"name": "b"}]
    server = server_with("a")
    (item,) = server.items()
    stored = item | {"spec": item["spec"] | {"devices": [{"name": "a", "taints": [timed]}]}}
    (update,) = plan_slices([want], [stored]).updates
    assert update["spec"]["devices"][0]["taints"] == [timed]


@given(
    st.lists(
        st.one_of(
            st.lists(st.sampled_from("abcdefgh"), max_size=5, unique=True),
            st.integers(0, 4),
        ),
        max_size=12,
    )
)
def test_any_history_ends_in_a_pool_that_consumers_trust(steps: list[list[str] | int]) -> None:
    """After changes and deletions in any order one plan makes the pool whole, and it stays."""
    server, wanted, last = Server(), desired(), 0
    for step in steps:
        if isinstance(step, int):
            for name in sorted(server.slices)[step : step + 1]:
                del server.slices[name]
        else:
            wanted = desired(*step, per_slice=2)
        before = server.items()
        last = max(last, highest_generation(before))
        server.apply(plan_slices(wanted, before, last_generation=last))
        stored = [server.slices[name] for name in sorted(server.slices)]
        assert [fingerprint(item["spec"]) for item in stored] == [
            fingerprint(item["spec"]) for item in wanted
        ]
        assert len(set(server.generations())) == 1
        assert server.generations()[0] >= last
        assert plan_slices(wanted, stored, last_generation=last).is_empty()
