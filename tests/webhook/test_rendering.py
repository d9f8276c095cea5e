"""Claims that the scheduler reads as they are meant."""

from hypothesis import given, settings

from gpu.refusal import RefusedError
from tests.webhook.strategies import ASKED
from tests.webhook.translating import bodies
from webhook.devicewish import Asked, wished
from webhook.rendering import claim_spec
from webhook.sharerequest import Near, ShareRequest

UUID = "gpuslice.io/uuid"


@settings(max_examples=150)
@given(asked=ASKED)
def test_distinct_devices_and_counts_never_meet(asked: Asked) -> None:
    """The constraint lets repeats through beside a count above one (until 1.36)."""
    try:
        spec = claim_spec(wished(asked)[0])
    except RefusedError:
        return
    constraints = spec["devices"].get("constraints", ())
    distinct = [each for each in constraints if "distinctAttribute" in each]
    requests = spec["devices"]["requests"]
    assert distinct == ([{"distinctAttribute": UUID}] if len(requests) > 1 else [])
    if distinct:
        assert all(body["count"] == 1 for body in bodies(spec))
    else:
        on_gpus = [each for each in bodies(spec) if each["deviceClassName"] != "mig.gpuslice.io"]
        counts = {body["count"] for body in on_gpus}
        assert counts <= {1} or asked.facts.counts_are_distinct


def test_single_requests_are_near_all_together() -> None:
    """Whoever follows a near one cannot be anywhere: two devices never have the same UUID."""
    request = ShareRequest(
        count=3, memory_mib=1, cores=0, count_is_distinct=False, near=(Near.NUMA_NODE,)
    )
    _, near, *circle = claim_spec(request)["devices"]["constraints"]
    assert near == {
        "requests": ["gpu-0/numa-share", "gpu-1/numa-share", "gpu-2/numa-share"],
        "matchAttribute": "resource.kubernetes.io/numaNode",
    }
    assert circle == [
        {"requests": [f"gpu-{one}/numa-share", f"gpu-{next_}/share"], "matchAttribute": UUID}
        for one, next_ in ((0, 1), (1, 2), (2, 0))
    ]


def test_the_same_request_is_the_same_claim() -> None:
    """And another object, which the caller may keep."""
    request = ShareRequest(memory_mib=1, cores=0)
    first, second = claim_spec(request), claim_spec(request)
    assert first == second
    first["devices"]["requests"].clear()
    assert claim_spec(request) == second
