"""Judges the webhook's certificate by the Secret that holds it, where nobody can be connected to.

The private key beside it is never looked at.
"""

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cli.doctor.cluster.hooks import Hook
from cli.doctor.cluster.view import WEBHOOK, Cluster, flags
from kube import paths
from kube.errors import KubeError

_SECRET: Final = "gpuslice-webhook-tls"  # noqa: S105 - the name of one
_SECRET_FLAG: Final = "--tls-secret="  # noqa: S105


class NotTrustedError(Exception):
    """The certificate does not chain to the bundle, or is of another name."""


class NotReachedError(Exception):
    """Nobody could be connected to from here."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A certificate that is trusted."""

    until: datetime
    where: str


def stored(cluster: Cluster, hook: Hook, *, namespace: str, reasons: list[str]) -> Seen:
    """Judge the certificate in the Secret, because nobody answers here."""
    name = _secret_name(cluster)
    unreached = f"not reached from here ({reasons[0]})" if reasons else "not reached from here"
    try:
        secret = cluster.item(paths.resource("v1", "secrets", namespace=namespace, name=name))
    except KubeError as error:
        message = f"{unreached}, and Secret {namespace}/{name} not read: {error}"
        raise NotReachedError(message) from error
    if secret is None:
        message = f"{unreached}, and there is no Secret {namespace}/{name}"
        raise NotReachedError(message)
    try:
        from kube.certificates import (  # noqa: PLC0415 - not installed with every command
            CertificateError,
            facts_of,
            is_issued_by,
            split_bundle,
        )
    except ImportError as error:
        message = f"{unreached}, and certificates cannot be read: install `gpuslice[webhook]`"
        raise NotReachedError(message) from error
    try:
        text = (secret.get("data") or {}).get("tls.crt") or ""
        served, *chain = split_bundle(base64.b64decode(text, validate=True))
        until = facts_of(served).not_after
        authorities = list(split_bundle(hook.bundle.encode()))
        # One step in between, as issuers make it.
        between = [it for it in chain if any(is_issued_by(it, each) for each in authorities)]
        hosts = facts_of(served).hosts
    except (CertificateError, binascii.Error, ValueError) as error:
        message = f"Secret {namespace}/{name} holds no certificate that can be read"
        raise NotTrustedError(message) from error
    if not any(is_issued_by(served, each) for each in (*authorities, *between)):
        message = f"the caBundle did not sign what is in Secret {namespace}/{name}"
        raise NotTrustedError(message)
    asked = hook.address[0]
    if not {asked, f"*.{asked.partition('.')[2]}"} & hosts:
        message = f"the certificate in Secret {namespace}/{name} is of another name"
        raise NotTrustedError(message)
    return Seen(until, f"certificate in Secret {name} is trusted")


def _secret_name(cluster: Cluster) -> str:
    """Return the Secret that the webhook's pods name, else the usual one."""
    try:
        pods = cluster.own_pods(WEBHOOK)
    except KubeError:
        return _SECRET
    for pod in pods:
        for word in flags(pod, _SECRET_FLAG):
            return word
        for volume in (pod.get("spec") or {}).get("volumes") or ():
            if found := (volume.get("secret") or {}).get("secretName"):
                return str(found)
    return _SECRET
