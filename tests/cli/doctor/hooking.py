"""Webhook configurations as the chart makes them, and TLS servers as the webhook is one."""

import base64
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from cli.demo.webhook import configurations_file
from kube.cabundle import PLURALS, configuration_path
from kube.certificates import KeyPair, issue, make_authority
from tests.cli.doctor.front import Front
from tests.cli.doctor.world import SYSTEM, World
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

Json = dict[str, Any]
HOST = f"gpuslice-webhook.{SYSTEM}.svc"
AUTHORITY = make_authority("test", datetime.now(UTC))
BUNDLE = base64.b64encode(AUTHORITY.certificate_pem).decode()
SERVICES = f"/api/v1/namespaces/{SYSTEM}/services"
ENDPOINTS = f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices"
SECRETS = f"/api/v1/namespaces/{SYSTEM}/secrets"


def configurations(*, bundle: str = BUNDLE, port: int = 443) -> list[Json]:
    """Return both configurations with a *bundle*; the Service has this *port*."""
    found: list[Json] = list(yaml.safe_load_all(configurations_file().read_text()))
    for each in found:
        for hook in each["webhooks"]:
            service = {**hook["clientConfig"]["service"], "port": port}
            hook["clientConfig"] = {"service": service}
            if bundle:
                hook["clientConfig"]["caBundle"] = bundle
    return found


def by_url(found: list[Json], url: str) -> list[Json]:
    """Return configurations whose webhooks are asked at *url*, without a Service or a bundle."""
    for each in found:
        for hook in each["webhooks"]:
            path = hook["clientConfig"]["service"].get("path", "/webhook")
            hook["clientConfig"] = {"url": f"{url}{path}"}
    return found


def configure(at: World, found: list[Json]) -> None:
    """Have the cluster show these configurations, without asking anybody."""
    for plural in PLURALS:
        kind = plural.removesuffix("s")
        of_kind = [each for each in found if each["kind"].lower() == kind]
        at.front.items[configuration_path(plural)] = of_kind


def service(front: Front, *addresses: str, port: int = 443, ready: bool = True) -> None:
    """Have the cluster show the webhook's Service with endpoints."""
    ports = [{"name": "https", "port": port, "targetPort": port}]
    name = "gpuslice-webhook"
    front.serve(
        SERVICES, {"metadata": {"name": name}, "spec": {"clusterIP": "None", "ports": ports}}
    )
    endpoints = [{"addresses": [each], "conditions": {"ready": ready}} for each in addresses]
    labels = {"kubernetes.io/service-name": name}
    front.serve(ENDPOINTS, {"metadata": {"name": "x", "labels": labels}, "endpoints": endpoints})


def certificate(*, days_left: int = 300, host: str = HOST, by: KeyPair = AUTHORITY) -> KeyPair:
    """Return a serving certificate that ends in so many days."""
    return issue(by, [host], datetime.now(UTC) - timedelta(days=365 - days_left))


def secret(pair: KeyPair, name: str = "gpuslice-webhook-tls") -> Json:
    """Return the Secret that holds *pair*."""
    data = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem}
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return {"metadata": {"name": name}, "data": encoded}


@contextmanager
def serving_tls(folder: Path, pair: KeyPair) -> Iterator[int]:
    """Serve with *pair* for the block; the port."""
    path = folder / "pair.pem"
    path.write_bytes(pair.certificate_pem + pair.key_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path)

    def nothing(_request: Request, exchange: Exchange) -> None:
        exchange.send(200, b"")

    with ScriptedServer(nothing, tls=context) as server:
        yield int(server.url.rpartition(":")[2])
