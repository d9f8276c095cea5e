"""What rounds with the extender are counted by."""

from tests.cluster.bench.extender_rounds import failed_bindings, took_s


def test_failed_bindings_are_told_from_others() -> None:
    """Of all requests those for bindings count that did not bind."""
    counts = {("/bind", "bound"): 7, ("/bind", "refused"): 2, ("/bind", "failed"): 1}
    counts |= {("/filter", "refused"): 5}
    lines = [
        f'gpuslice_extender_requests_total{{path="{path}",result="{result}"}} {count}.0'
        for (path, result), count in counts.items()
    ]
    assert failed_bindings("\n".join(lines) + "\n") == 3


def test_a_round_begins_with_the_first_request() -> None:
    """The time runs from the first request, a binding or not, to the answer to the last binding."""

    def event(verb: str, subresource: str, second: int) -> dict[str, object]:
        return {
            "verb": verb,
            "objectRef": {"resource": "pods", "subresource": subresource},
            "requestReceivedTimestamp": f"2026-01-01T00:00:{second:02}.000000Z",
            "stageTimestamp": f"2026-01-01T00:00:{second:02}.250000Z",
        }

    bindings = [event("create", "binding", second) for second in (7, 5)]
    assert took_s([event("patch", "", 3), *bindings, event("patch", "", 9)]) == 4.25
