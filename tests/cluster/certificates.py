"""Keys and certificates of a cluster: one authority signs servers and clients.

Kubernetes reads a client's user and groups from its certificate's common name and organizations;
`system:masters` may do all, and a kubelet must be `system:node:<name>` of `system:nodes`.
"""

import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID: Final = dt.timedelta(days=30)
_SKEW: Final = dt.timedelta(minutes=10)


class Authority:
    """A certificate authority that writes what it issues into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("gpuslice-cluster", ())
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_usage(signs=True), True)
        certificate = builder.sign(self._key, hashes.SHA256())
        (folder / "ca.crt").write_bytes(certificate.public_bytes(Encoding.PEM))

    def issue(
        self, file: str, common_name: str, *, groups: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> None:
        """Write FILE.crt and FILE.key: a server's when *hosts* are named, else a client's."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(common_name, groups), self._name, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_usage(signs=False), True)
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        (self.folder / f"{file}.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
        write_key(self.folder / f"{file}.key", key)


def write_signing_pair(folder: Path, file: str) -> None:
    """Write FILE.key and FILE.pub, a key pair that signs service account tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    write_key(folder / f"{file}.key", key)
    (folder / f"{file}.pub").write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a private key that only its owner may read."""
    # Kubernetes reads service account keys of the traditional form.
    text = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
    )


def _name(common_name: str, groups: Sequence[str]) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
