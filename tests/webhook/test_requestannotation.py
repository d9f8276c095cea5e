"""The annotation is read strictly, whoever wrote it."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.refusal import RefusedError
from webhook import requestannotation
from webhook.sharerequest import ShareRequest


def _text(claims: Any, version: Any = 1, **more: Any) -> str:
    return json.dumps({"version": version, "claims": claims, **more})


def test_it_is_short_and_always_the_same() -> None:
    """Defaults are left out, keys sorted."""
    requests = {
        "gpu-b": ShareRequest(memory_mib=5000, cores=0),
        "gpu-a": ShareRequest(memory_percent=50, sizes_mib=(23028, 81920), cores=30, priority=0),
    }
    assert requestannotation.write(requests) == (
        '{"claims":{"gpu-a":{"cores":30,"memoryPercent":50,"priority":0,'
        '"sizesMib":[23028,81920]},"gpu-b":{"cores":0,"memoryMib":5000}},"version":1}'
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", ""),
        ("[]", ""),
        (_text({}, version=2), "version"),
        (_text({}, version="1"), "version"),
        (_text({}, more=1), "more"),
        (_text({"GPU": {"cores": 0}}), "GPU"),
        (_text({"gpu\n": {"cores": 0}}), "gpu"),
        (_text({"gpu": {}}), "cores"),
        (_text({"gpu": {"cores": "0"}}), "cores"),
        (_text({"gpu": {"cores": 101}}), "cores"),
        (_text({"gpu": {"cores": 0, "count": 33}}), "count"),
        (_text({"gpu": {"cores": 0, "count": True}}), "count"),
        (_text({"gpu": {"cores": 0, "spec": {"devices": {}}}}), "spec"),
        (_text({"gpu": {"cores": 0, "logLevel": 4}}), "logLevel"),
        (_text({"gpu": {"cores": 30, "enforcement": "all"}}), "enforcement"),
        (_text({"gpu": {"cores": 0, "enforcement": "none"}}), "gpu"),
        (_text({"gpu": {"cores": 0, "memoryMib": 0}}), "memoryMib"),
        (_text({"gpu": {"cores": 0, "memoryPercent": 50}}), "gpu"),
        (_text({"gpu": {"cores": 0, "memoryMib": 1, "sizesMib": [1]}}), "gpu"),
        (_text({"gpu": {"cores": 0, "memoryPercent": 1, "sizesMib": [2, 1]}}), "sizesMib"),
        (_text({"gpu": {"cores": 0, "useUuids": ['GPU-"||true']}}), "useUuids"),
        (_text({"gpu": {"cores": 0, "useTypes": [""]}}), "useTypes"),
        (_text({"gpu": {"cores": 0, "useTypes": ["b", "a"]}}), "useTypes"),
        (_text({"gpu": {"cores": 0, "useTypes": ["x" * 20_000]}}), "useTypes"),
        (_text({"gpu": {"cores": 0, "near": ["numaNode"]}}), "gpu"),
        (_text({"gpu": {"cores": 0, "fill": "binpack"}}), "gpu"),
        (_text({"gpu": {"cores": 0, "devices": "mig"}}), "gpu"),
        (_text({"gpu": {"cores": 0, "shares": [10]}}), "gpu"),
        (
            _text(
                {
                    "gpu": {
                        "cores": 0,
                        "memoryPercent": 1,
                        "sizesMib": [1, 2, 3],
                        "shares": [1, 2, 3],
                    }
                }
            ),
            "gpu",
        ),
    ],
)
def test_what_a_claim_cannot_be_made_of_is_refused(text: str, named: str) -> None:
    """The reason names the field; nothing is corrected."""
    with pytest.raises(RefusedError) as caught:
        requestannotation.read(text)
    assert caught.value.refusal.code == "RequestsAnnotationInvalid"
    assert named in caught.value.refusal.value


def test_an_endless_annotation_is_not_even_parsed() -> None:
    """Kubernetes takes 256 KiB in all."""
    with pytest.raises(RefusedError, match="the limit is"):
        requestannotation.read(" " * 300_000)


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_any_json_is_read_or_refused(value: Any) -> None:
    """No text makes it fail otherwise."""
    for text in (json.dumps(value), _text(value), _text({"gpu": value}), str(value)):
        with suppress(RefusedError):
            assert requestannotation.write(requestannotation.read(text))


@pytest.mark.parametrize("pod", [{}, {"metadata": None}, {"metadata": {"annotations": []}}, None])
def test_a_pod_without_it_has_no_requests(pod: Any) -> None:
    """Whatever else is missing."""
    assert requestannotation.of_pod(pod) == {}


def test_an_annotation_that_is_no_text_is_refused() -> None:
    """It would be an error to take it for none."""
    pod = {"metadata": {"annotations": {requestannotation.ANNOTATION: 1}}}
    with pytest.raises(RefusedError, match="must be a text"):
        requestannotation.of_pod(pod)
