"""The check of the webhook's certificate, with real TLS servers."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cli.doctor.model import Status, Verdict
from kube.certificates import KeyPair, make_authority
from tests.cli.doctor.hooking import (
    BUNDLE,
    SECRETS,
    by_url,
    certificate,
    configurations,
    configure,
    secret,
    service,
    serving_tls,
)
from tests.cli.doctor.world import World, part, pods, world

OTHER = make_authority("other", datetime.now(UTC))


def served(at: World, folder: Path, pair: KeyPair) -> Verdict:
    """Return the verdict where *pair* is served behind the Service."""
    with serving_tls(folder, pair) as port:
        configure(at, configurations(port=port))
        service(at.front, "127.0.0.1", port=port)
        return at.verdict("webhook-certificate")


@pytest.mark.parametrize(
    ("pair", "status", "said"),
    [
        (certificate(), Status.OK, "served certificate is trusted, valid until"),
        (certificate(days_left=5), Status.WARNING, "expires soon"),
        (certificate(days_left=-2), Status.FAILED, "certificate has expired"),
        (certificate(by=OTHER), Status.FAILED, "unable to get local issuer"),
        (certificate(host="other.example.com"), Status.FAILED, "not valid for 'gpuslice-webhook"),
    ],
)
def test_served(pair: KeyPair, status: Status, said: str, tmp_path: Path) -> None:
    """The chain, the name and the end of what is served are looked at."""
    with world() as at:
        verdict = served(at, tmp_path, pair)
        assert verdict.status is status
        assert said in verdict.seen


@pytest.mark.parametrize(
    ("pair", "status", "said"),
    [
        (certificate(), Status.OK, "certificate in Secret gpuslice-webhook-tls is trusted"),
        (certificate(host="*.gpuslice-system.svc"), Status.OK, "is trusted"),
        (certificate(days_left=5), Status.WARNING, "expires soon"),
        (certificate(days_left=-2), Status.FAILED, "expired"),
        (certificate(by=OTHER), Status.FAILED, "the caBundle did not sign"),
        (certificate(host="other.example.com"), Status.FAILED, "is of another name"),
        (KeyPair(b"", b"key"), Status.FAILED, "holds no certificate"),
    ],
)
def test_stored(pair: KeyPair, status: Status, said: str) -> None:
    """From outside the cluster the public half of the Secret is judged; no key comes out."""
    with world() as at:
        configure(at, configurations(port=1))
        service(at.front, "127.0.0.1", port=1)
        at.front.serve(SECRETS, secret(pair))
        verdict = at.verdict("webhook-certificate")
        assert verdict.status is status
        assert said in verdict.seen
        assert "PRIVATE" not in repr(verdict)


def test_url_without_a_bundle(tmp_path: Path) -> None:
    """The API server trusts it by its own authorities, of which this machine knows nothing."""
    pair = certificate(host="localhost")
    with world() as at, serving_tls(tmp_path, pair) as port:
        configure(at, by_url(configurations(), f"https://localhost:{port}"))
        assert at.verdict("webhook-configured").status is Status.OK
        assert at.verdict("webhook-endpoints").status is Status.SKIPPED
        verdict = at.verdict("webhook-certificate")
        assert verdict.status is Status.UNKNOWN
        assert verdict.seen.startswith("by this machine its certificate is not trusted: ")


def test_url_with_a_bundle(tmp_path: Path) -> None:
    """What serves there is judged by the bundle, as it is behind a Service."""
    pair = certificate(host="localhost")
    with world() as at, serving_tls(tmp_path, pair) as port:
        found = by_url(configurations(), f"https://localhost:{port}")
        for hook in (hook for each in found for hook in each["webhooks"]):
            hook["clientConfig"]["caBundle"] = BUNDLE
        configure(at, found)
        assert at.verdict("webhook-certificate").status is Status.OK


def test_secret_is_the_one_that_the_pods_name() -> None:
    """Its name stands among the flags of the webhook's pods."""
    with world() as at:
        configure(at, configurations(port=1))
        pods(at.front, part("webhook", "one", args=("webhook", "--tls-secret=mine")))
        at.front.serve(SECRETS, secret(certificate(), "mine"))
        assert at.verdict("webhook-certificate").status is Status.OK


def test_neither_reached_nor_read() -> None:
    """Who reaches nobody and may not read Secrets is told both."""
    with world() as at:
        configure(at, configurations(port=1))
        at.front.refused.append(("GET", "/secrets"))
        verdict = at.verdict("webhook-certificate")
        assert verdict.status is Status.UNKNOWN
        assert "not reached from here" in verdict.seen
        assert "403" in verdict.seen


def test_bundle_is_needed(tmp_path: Path) -> None:
    """Without a caBundle, or with none that is one, the API server trusts nobody."""
    with world() as at:
        configure(at, configurations(bundle=""))
        assert "no caBundle" in at.verdict("webhook-certificate").seen
        configure(at, configurations(bundle="bm90aGluZw=="))
        assert "holds no certificate" in at.verdict("webhook-certificate").seen
