"""Tests of the questions of the API server and of the answers."""

import base64
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.review import ALLOWED, ReviewError, Verdict, denied, read, write


def question(**changes: Any) -> bytes:
    """Return a review as the API server sends it."""
    request: dict[str, Any] = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "team-red",
        "userInfo": {"username": "ann", "groups": ["dev"], "extra": {"k": ["v", "w"]}},
        "object": {"metadata": {"generateName": "a-"}, "spec": {}},
        "oldObject": None,
        "dryRun": False,
    }
    version = changes.pop("version", "admission.k8s.io/v1")
    return json.dumps(
        {"kind": "AdmissionReview", "apiVersion": version, "request": request | changes}
    ).encode()


def test_a_question_is_read() -> None:
    """What decisions need is there, and what is missing is empty."""
    review = read(question())
    assert (review.operation, review.resource, review.group) == ("CREATE", "pods", "")
    assert (review.subresource, review.name, review.namespace) == ("", "", "team-red")
    assert review.user.groups == ("dev",)
    assert review.user.extra == {"k": ("v", "w")}
    assert review.item == {"metadata": {"generateName": "a-"}, "spec": {}}
    assert review.old_item is None
    assert not review.dry_run


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_the_answer_has_the_version_of_the_question(version: str) -> None:
    """Version and uid are those that came."""
    answer = json.loads(write(read(question(version=version)), ALLOWED))
    assert answer["apiVersion"] == version
    assert answer["response"] == {"uid": "u-1", "allowed": True}


def test_a_patch_is_sent_in_base64() -> None:
    """A patch and the warnings arrive whole."""
    patch = ({"op": "add", "path": "/metadata/labels", "value": {"ö": "x"}},)
    verdict = Verdict(allowed=True, patch=patch, warnings=("mind",))
    response = json.loads(write(read(question()), verdict))["response"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == list(patch)
    assert response["warnings"] == ["mind"]


def test_a_refusal_has_no_patch() -> None:
    """A refusal says why, with 403 as Forbidden."""
    response = json.loads(write(read(question()), denied("no", warnings=("w",))))["response"]
    assert response == {
        "uid": "u-1",
        "allowed": False,
        "warnings": ["w"],
        "status": {"code": 403, "message": "no", "reason": "Forbidden"},
    }
    failed = json.loads(write(read(question()), denied("sorry", code=500)))["response"]
    assert failed["status"] == {"code": 500, "message": "sorry"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"[" * 100_000,
        question(uid=None),
        question(object=[]),
        question(userInfo={"username": 1}),
        question(version="v1"),
        question(userInfo={"username": "ann", "groups": "system:masters"}),
        question(userInfo={"username": "ann", "extra": {"scopes": "all"}}),
        question(dryRun="true"),
        question(object={"spec": {"priority": math.nan}}),
    ],
)
def test_what_is_no_review_is_refused(body: bytes) -> None:
    """The error says what is wrong, in few words."""
    with pytest.raises(ReviewError, match="no AdmissionReview") as caught:
        read(body)
    assert len(str(caught.value)) <= 500


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_review_or_refused(body: bytes) -> None:
    """Nothing but the one error is raised."""
    with pytest.raises(ReviewError):
        read(body)


@given(st.dictionaries(st.sampled_from(sorted(json.loads(question())["request"])), st.none()))
def test_any_missing_part_is_a_review_or_refused(changes: dict[str, None]) -> None:
    """Missing parts are empty where decisions can do without them."""
    try:
        review = read(question(**changes))
    except ReviewError:
        assert {"uid", "operation", "resource"} & changes.keys()
    else:
        assert json.loads(write(review, ALLOWED))["response"]["uid"] == "u-1"
