"""What a namespace needs, decided without any cluster."""

from typing import Any

import pytest

from gpu.refusal import Refusal
from kube.objects import JsonObject
from tests.webhook.viewing import a_translated_pod, templates_of
from webhook.templatecontent import expected_templates
from webhook.templateplan import Expected, Reader
from webhook.trimming import Template

SMALL = {"gpu": 1, "gpumem": 1000}
LARGE = {"gpu": 1, "gpumem": 9000}


def a_pod(name: str = "pod", amounts: dict[str, int] | None = None, **status: Any) -> JsonObject:
    """Return a translated pod as it is watched."""
    pod = a_translated_pod(name, amounts=amounts or SMALL)
    pod["metadata"]["uid"] = f"uid of {name}"
    return {**pod, "status": status}


def a_template(pod: JsonObject, **changes: Any) -> Template:
    """Return the only template that *pod* needs."""
    expected = expected_templates(pod)
    assert not isinstance(expected, Refusal)
    ((name, spec),) = expected.items()
    values: dict[str, Any] = {
        "namespace": "default",
        "name": name,
        "uid": f"uid of {name}",
        "resource_version": "1",
        "is_labelled": True,
        "is_leaving": False,
        "is_named_like_ours": True,
        "claim_spec": spec,
    }
    return Template(**(values | changes))


def test_what_is_missing_is_made_once_for_all_pods_that_need_it() -> None:
    """Equal requests share a template."""
    one, two, other = a_pod("one"), a_pod("two"), a_pod("other", LARGE)
    plan = Reader().plan([one, two, other], [])
    found = {
        needed.name: [pod["metadata"]["name"] for pod in needed.pods] for needed in plan.create
    }
    assert found == {templates_of(one)[0]: ["one", "two"], templates_of(other)[0]: ["other"]}
    assert {needed.name: needed.spec for needed in plan.create} == {
        **expected_templates(one),  # type: ignore[dict-item]
        **expected_templates(other),  # type: ignore[dict-item]
    }
    assert not plan.complaints


def test_what_is_there_is_used_and_the_rest_is_idle() -> None:
    """Nothing is to be made, and what no pod needs may go."""
    pod, other = a_pod(), a_pod("other", LARGE)
    used, idle = a_template(pod), a_template(other)
    plan = Reader().plan([pod], [used, idle])
    assert plan.create == ()
    assert plan.used == {used.uid}
    assert plan.idle == (idle,)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_needs_nothing(phase: str) -> None:
    """Nor does one that is being deleted, or one without the label."""
    leaving = a_pod("leaving")
    leaving["metadata"]["deletionTimestamp"] = "now"
    stranger = a_pod("stranger")
    stranger["metadata"]["labels"] = {}
    ended = a_pod("ended", phase=phase)
    template = a_template(ended)
    plan = Reader().plan([ended, leaving, stranger], [template])
    assert plan.idle == (template,)
    assert plan.create == ()


def test_a_running_pod_keeps_its_template() -> None:
    """Even when its claims exist."""
    pod = a_pod(phase="Running")
    assert Reader().plan([pod], [a_template(pod)]).idle == ()


@pytest.mark.parametrize("labelled", [True, False])
def test_a_foreign_object_of_the_name_is_left_alone_and_told(*, labelled: bool) -> None:
    """It is neither used nor replaced nor deleted, whatever label it has."""
    pod = a_pod()
    altered = a_template(pod, claim_spec={"devices": {"requests": []}}, is_labelled=labelled)
    plan = Reader().plan([pod], [altered])
    assert (plan.create, plan.used, plan.idle) == ((), frozenset(), ())
    (complaint,) = plan.complaints
    assert complaint.template is altered
    assert complaint.pod is pod
    assert complaint.refusal.code == "TemplateForeign"
    assert f"-n default {altered.name}" in str(complaint.refusal)
    assert Reader().plan([], [altered]).idle == ()


def test_a_template_that_gives_metadata_to_claims_is_foreign() -> None:
    """Annotations on a claim could pretend what it is not."""
    pod = a_pod()
    spec = a_template(pod).claim_spec
    altered = a_template(pod, claim_spec={"metadata": {"annotations": {"a": "b"}}, "spec": spec})
    assert [each.refusal.code for each in Reader().plan([pod], [altered]).complaints] == [
        "TemplateForeign"
    ]


def test_the_right_content_without_our_label_is_used_and_never_deleted() -> None:
    """Somebody keeps it for himself."""
    pod = a_pod()
    kept = a_template(pod, is_labelled=False)
    assert Reader().plan([pod], [kept]).create == ()
    assert Reader().plan([], [kept]).idle == ()


def test_what_is_leaving_is_not_deleted_again() -> None:
    """Somebody's finalizer holds it."""
    assert Reader().plan([], [a_template(a_pod(), is_leaving=True)]).idle == ()


def test_a_pod_whose_annotation_cannot_be_read_does_not_stop_the_others() -> None:
    """It is told by name, and the good one gets its template."""
    bad, good = a_pod("bad"), a_pod("good", LARGE)
    bad["metadata"]["annotations"]["gpuslice.io/requests"] = "{"
    plan = Reader().plan([bad, good], [])
    assert [needed.name for needed in plan.create] == templates_of(good)
    (complaint,) = plan.complaints
    assert complaint.pod is bad
    assert complaint.template is None


def test_a_pod_that_breaks_the_reader_does_not_stop_the_others() -> None:
    """A mistake of ours costs one pod."""

    def broken(pod: JsonObject) -> Expected:
        if pod["metadata"]["name"] == "bad":
            raise ZeroDivisionError
        return expected_templates(pod)

    plan = Reader(broken).plan([a_pod("bad"), a_pod("good")], [])
    assert len(plan.create) == 1
    assert [each.refusal.code for each in plan.complaints] == ["RequestsNotRead"]


def test_a_pod_is_read_again_only_when_its_annotation_changes() -> None:
    """A namespace with many pods is looked at often."""
    read: list[str] = []

    def counting(pod: JsonObject) -> Expected:
        read.append(pod["metadata"]["name"])
        return expected_templates(pod)

    reader = Reader(counting)
    pod, other = a_pod("pod"), a_pod("other")
    for _ in range(3):
        reader.plan([pod, other], [])
    assert read == ["pod", "other"]
    changed = a_pod("pod")
    changed["metadata"]["annotations"]["gpuslice.io/requests"] = "{"
    assert reader.plan([changed, other], []).complaints
    assert read == ["pod", "other", "pod"]
