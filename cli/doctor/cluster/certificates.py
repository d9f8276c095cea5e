"""The check of the webhook's certificate: whom the API server trusts, and until when.

The certificate is taken from whoever serves where that can be reached: by the Service's name and
address, or by those of its endpoints. Else the public half of the Secret that holds it is read. The
private key beside it is never looked at.
"""

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from cli.doctor.cluster.hooks import Hook, our_hooks
from cli.doctor.cluster.secretcertificate import NotReachedError, NotTrustedError, Seen, stored
from cli.doctor.cluster.view import Cluster
from cli.doctor.cluster.webhook import ready_addresses
from cli.doctor.model import Check, Verdict, failed, listed, ok, skipped, unknown, warning
from kube import paths
from kube.errors import KubeError
from kube.objects import JsonObject

_SOON: Final = timedelta(days=14)
_CONNECT_S: Final = 3.0
_TARGET_PORT: Final = 9443
_RENEW: Final = "renew it: delete the Secret and restart the webhook, or ask your issuer"


def certificate(cluster: Cluster) -> Verdict:
    """Follow the chain of each certificate that is served, and read when it ends."""
    targets = {(hook.address, hook.bundle): hook for hook in our_hooks(cluster)}
    if not targets:
        return skipped("no webhook of ours is asked")
    without = [hook.name for hook in targets.values() if not hook.has_authorities]
    if without:
        remedy = "have the webhook write it (--tls self-made), or cert-manager inject it"
        return failed(f"no caBundle: {listed(without)}", remedy)
    try:
        seen = [_look(cluster, hook) for hook in targets.values()]
    except NotTrustedError as error:
        return failed(str(error), "see that caBundle and certificate belong together")
    except NotReachedError as error:
        return unknown(str(error), "run this in the cluster, or as somebody who may read it")
    return _until(cluster, seen)


def _until(cluster: Cluster, seen: list[Seen]) -> Verdict:
    first = min(seen, key=lambda each: each.until)
    left = first.until - cluster.now
    said = f"{first.where}, valid until {first.until:%Y-%m-%d %H:%M} UTC"
    if left <= timedelta(0):
        return failed(f"expired: {said}", _RENEW)
    if left < _SOON:
        return warning(f"expires soon: {said}", _RENEW)
    return ok(said)


def _look(cluster: Cluster, hook: Hook) -> Seen:
    context = _trusting(hook)
    reasons = []
    for address in _addresses(cluster, hook):
        try:
            return _served(address, hook.address[0], context)
        except ssl.SSLCertVerificationError as error:
            said = f"its certificate is not trusted: {error.verify_message}"
            if not hook.bundle:
                # The API server's own authorities may be others than those of this machine.
                message = f"by this machine {said}"
                raise NotReachedError(message) from error
            raise NotTrustedError(said) from error
        except (OSError, ValueError) as error:
            reasons.append(f"{address[0]}:{address[1]}: {error}")
    if hook.service is None:
        raise NotReachedError(reasons[0] if reasons else f"{hook.name} has no address")
    return stored(cluster, hook, namespace=hook.service[0], reasons=reasons)


def _addresses(cluster: Cluster, hook: Hook) -> Iterator[tuple[str, int]]:
    """Yield where to connect to, the usual way first."""
    yield hook.address
    if hook.service is None:
        return
    namespace, name, port = hook.service
    try:
        service = cluster.item(paths.resource("v1", "services", namespace=namespace, name=name))
        address = ((service or {}).get("spec") or {}).get("clusterIP")
        if address and address != "None":
            yield str(address), port
        target = _target_port(service or {}, port)
        for each in ready_addresses(cluster, namespace, name):
            yield each, target
    except KubeError:
        return


def _target_port(service: JsonObject, port: int) -> int:
    for each in (service.get("spec") or {}).get("ports") or ():
        target = each.get("targetPort")
        if each.get("port") == port and isinstance(target, int):
            return target
    return _TARGET_PORT


def _trusting(hook: Hook) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=hook.bundle)
    except (ssl.SSLError, ValueError) as error:
        message = f"the caBundle of {hook.name} holds no certificate"
        raise NotTrustedError(message) from error
    # Python 3.13 asks for extensions that the authorities of many clusters do not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _served(address: tuple[str, int], name: str, context: ssl.SSLContext) -> Seen:
    with (
        socket.create_connection(address, timeout=_CONNECT_S) as plain,
        context.wrap_socket(plain, server_hostname=name) as secured,
    ):
        until_s = ssl.cert_time_to_seconds(str((secured.getpeercert() or {})["notAfter"]))
    return Seen(datetime.fromtimestamp(until_s, UTC), "served certificate is trusted")


CHECKS: Final = (Check(id="webhook-certificate", run=certificate),)
