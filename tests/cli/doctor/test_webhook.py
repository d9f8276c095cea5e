"""Checks of how the API server asks the webhook, and whether it answers."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.doctor.model import Status
from kube import paths
from kube.cabundle import PLURALS, configuration_path
from tests.cli.doctor.hooking import configurations, configure, service
from tests.cli.doctor.world import part, pods, world
from tests.cluster.webhook_server import webhook_server

Json = dict[str, Any]


def test_configurations_of_the_chart() -> None:
    """They are found by the names of their webhooks, and are as they should be."""
    with world() as at:
        configure(at, configurations())
        verdict = at.verdict("webhook-configured")
        assert (verdict.status, verdict.seen) == (
            Status.OK,
            "4 webhooks as the chart has them, Fail",
        )


def test_no_webhook() -> None:
    """Without a webhook claims by hand work; one that runs unasked is a failure."""
    with world() as at:
        assert at.verdict("webhook-configured").status is Status.WARNING
        assert at.verdict("webhook-endpoints").status is Status.SKIPPED
        assert at.verdict("webhook-answers").status is Status.SKIPPED
        assert at.verdict("webhook-certificate").status is Status.SKIPPED
        pods(at.front, part("webhook", "one"))
        assert at.verdict("webhook-configured").status is Status.FAILED


def drop_selector(hook: Json) -> None:
    """Ask it about all namespaces."""
    del hook["namespaceSelector"]


def drop_bundle(hook: Json) -> None:
    """Trust nobody."""
    del hook["clientConfig"]["caBundle"]


def ignore(hook: Json) -> None:
    """Let pods pass while it is away."""
    hook["failurePolicy"] = "Ignore"


def drop_conditions(hook: Json) -> None:
    """Ask it about every pod."""
    del hook["matchConditions"]


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        (drop_selector, Status.FAILED, "is asked about gpuslice-system, kube-system too"),
        (drop_bundle, Status.FAILED, "has no caBundle"),
        (ignore, Status.WARNING, "failurePolicy Ignore"),
        (drop_conditions, Status.WARNING, "has no matchConditions"),
    ],
)
def test_changed_configuration(change: Callable[[Json], None], status: Status, said: str) -> None:
    """What somebody changed is named with the webhook that has it."""
    with world() as at:
        found = configurations()
        change(found[0]["webhooks"][0])
        configure(at, found)
        verdict = at.verdict("webhook-configured")
        assert verdict.status is status
        assert verdict.seen.startswith("pods.gpuslice.io ")
        assert said in verdict.seen


def test_older_servers_have_no_conditions() -> None:
    """Before 1.30 there are no conditions, so the chart asks with Ignore, and that is well."""
    with world() as at:
        at.front.texts["/version"] = '{"gitVersion": "v1.28.4"}'
        found = configurations()
        for each in found:
            for hook in each["webhooks"]:
                ignore(hook)
                hook.pop("matchConditions", None)
        configure(at, found)
        assert at.verdict("webhook-configured").status is Status.OK


def test_half_of_the_configurations() -> None:
    """Without the validating half allocations can be forged, without the other nothing works."""
    with world() as at:
        mutating, validating = configurations()
        configure(at, [mutating])
        assert "can be forged" in at.verdict("webhook-configured").seen
        configure(at, [validating])
        assert at.verdict("webhook-configured").status is Status.FAILED


def test_endpoints() -> None:
    """A Service needs somebody who is ready behind it."""
    with world() as at:
        configure(at, configurations())
        at.front.serve("/api/v1/namespaces/gpuslice-system/services")
        assert "no Service" in at.verdict("webhook-endpoints").seen
    with world() as at:
        configure(at, configurations())
        service(at.front, "192.0.2.1", ready=False)
        assert at.verdict("webhook-endpoints").status is Status.FAILED
    with world() as at:
        configure(at, configurations())
        service(at.front, "192.0.2.1", "192.0.2.2")
        assert at.verdict("webhook-endpoints").seen == "2 ready endpoints"


def answer(*patch: Json) -> Callable[[str, Json], Json]:
    """Return a webhook that changes a pod so."""

    def review(_path: str, _request: Json) -> Json:
        if not patch:
            return {"allowed": True}
        text = base64.b64encode(json.dumps(patch).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": text}

    return review


def deny(_path: str, _request: Json) -> Json:
    """Refuse every pod."""
    return {"allowed": False, "status": {"message": "too much memory"}}


CLAIM = [{"name": "gpu", "resourceClaimTemplateName": "x"}]


@pytest.mark.parametrize(
    ("reviewer", "status", "said"),
    [
        (
            answer({"op": "add", "path": "/spec/resourceClaims", "value": CLAIM}),
            Status.OK,
            "became a claim",
        ),
        (
            answer({"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"}),
            Status.OK,
            "goes to hami-scheduler",
        ),
        (
            answer({"op": "add", "path": "/metadata/annotations", "value": {"gpuslice.io/x": "1"}}),
            Status.OK,
            "was marked",
        ),
        (answer(), Status.FAILED, "came back unchanged"),
        (deny, Status.OK, "it refused a trial pod"),
    ],
)
def test_answers(
    reviewer: Callable[[str, Json], Json], status: Status, said: str, tmp_path: Path
) -> None:
    """The API server itself asks a real webhook about a pod that never exists."""
    webhook = webhook_server("127.0.0.1", "127.0.0.1", tmp_path, reviewer)
    with webhook as (port, authority), world() as at:
        hook(at, f"https://127.0.0.1:{port}/webhook", authority)
        verdict = at.verdict("webhook-answers")
        assert (verdict.status, said in verdict.seen) == (status, True)
        assert at.cluster().items(paths.pods()) == []


def hook(at: Any, url: str, authority: bytes) -> None:
    """Have the simulated server ask a webhook under *url*."""
    found = configurations()[0]
    bundle = base64.b64encode(authority).decode()
    for each in found["webhooks"]:
        each["clientConfig"] = {"url": url, "caBundle": bundle}
    at.put(configuration_path(PLURALS[0]), found)


def test_webhook_that_is_away(tmp_path: Path) -> None:
    """What the API server says of the call is what is shown."""
    with webhook_server("127.0.0.1", "127.0.0.1", tmp_path) as (port, authority):
        pass
    with world() as at:
        hook(at, f"https://127.0.0.1:{port}/webhook", authority)
        verdict = at.verdict("webhook-answers")
        assert verdict.status is Status.FAILED
        assert "failed calling webhook" in verdict.seen


def test_exempt_namespace_is_no_answer() -> None:
    """Where the webhook is not asked about the namespace, nothing follows."""
    with world() as at:
        configure(at, configurations())
        exempt = {"name": "default", "labels": {"gpuslice.io/webhook": "ignore"}}
        at.front.serve("/api/v1/namespaces", {"metadata": exempt})
        verdict = at.verdict("webhook-answers")
        assert (verdict.status, "--trial-namespace" in verdict.remedy) == (Status.UNKNOWN, True)


def test_no_right_to_create_pods_is_no_answer() -> None:
    """A refusal by RBAC says nothing of the webhook."""
    with world() as at:
        configure(at, configurations())
        at.front.refused.append(("POST", "/pods"))
        assert at.verdict("webhook-answers").status is Status.UNKNOWN
