"""What rounds with the extender are counted by."""

from tests.cluster.bench.extender_rounds import failed_bindings


def test_failed_bindings_are_told_from_others() -> None:
    """Of all requests those for bindings count that did not bind."""
    counts = {("/bind", "bound"): 7, ("/bind", "refused"): 2, ("/bind", "failed"): 1}
    counts |= {("/filter", "refused"): 5}
    lines = [
        f'gpuslice_extender_requests_total{{path="{path}",result="{result}"}} {count}.0'
        for (path, result), count in counts.items()
    ]
    assert failed_bindings("\n".join(lines) + "\n") == 3
