"""An authority of our own and what it signs, for a webhook that nobody gave a certificate.

Go and OpenSSL find the signer among several authorities of a bundle by key identifiers, and
Python refuses since 3.13 what lacks the extensions of RFC 5280, so all have them. A common name
ends at 64 characters; the alternative names are what counts.

Only servers import this: `cryptography` is nothing for the node agent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
SERVING_LIFETIME: Final = timedelta(days=365)
BACKDATED: Final = timedelta(hours=1)
"""Clocks of a cluster differ: what is made now must be valid on all."""

_NAME_MAX: Final = 64


class CertificateError(ValueError):
    """A certificate or a key that cannot be had or used; the text never shows their content."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate, perhaps with its chain, and its private key; both PEM."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """What a certificate says."""

    not_before: datetime
    not_after: datetime
    hosts: frozenset[str]

    def is_due(self, now: datetime) -> bool:
        """Tell whether two thirds of its time are over."""
        return now >= self.not_before + (self.not_after - self.not_before) * 2 / 3

    def age(self, now: datetime) -> timedelta:
        """Return how long ago it was made, if it is one of ours."""
        return now - self.not_before - BACKDATED


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def facts_of(pem: bytes) -> CertificateFacts:
    """Return what the first certificate in *pem* says; raises `CertificateError`."""
    certificate = _certificate(pem)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = names.get_values_for_type(x509.IPAddress)
        hosts = frozenset([*names.get_values_for_type(x509.DNSName), *map(str, addresses)])
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        hosts = frozenset()
    return CertificateFacts(
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        hosts=hosts,
    )


def split_bundle(pem: bytes) -> tuple[bytes, ...]:
    """Return each certificate in *pem* by itself; raises `CertificateError`."""
    try:
        return tuple(
            each.public_bytes(Encoding.PEM) for each in x509.load_pem_x509_certificates(pem)
        )
    except ValueError as error:
        message = "these are no PEM certificates"
        raise CertificateError(message) from error


def is_issued_by(certificate_pem: bytes, authority_pem: bytes) -> bool:
    """Tell whether the authority has signed the certificate."""
    try:
        _certificate(certificate_pem).verify_directly_issued_by(_certificate(authority_pem))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def check_pair(pair: KeyPair) -> None:
    """Raise `CertificateError` unless the key is that of the certificate."""
    if _certificate(pair.certificate_pem).public_key() != _key(pair.key_pem).public_key():
        message = "key and certificate do not belong together"
        raise CertificateError(message)


def make_authority(name: str, now: datetime) -> KeyPair:
    """Make an authority that signs itself; *name* and a number become its common name."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Two authorities in one bundle should be told apart by their names, too.
    subject = _named(f"{name[:20]} {x509.random_serial_number():x}")
    builder = _begun(subject, now, AUTHORITY_LIFETIME).issuer_name(subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(authority=True), critical=True)
    return _signed(builder, key, signer=key)


def issue(authority: KeyPair, hosts: Sequence[str], now: datetime) -> KeyPair:
    """Make a serving certificate for *hosts*, names or addresses; raises `CertificateError`."""
    builder = _begun(_named(hosts[0]), now, SERVING_LIFETIME)
    builder = builder.issuer_name(_certificate(authority.certificate_pem).subject)
    names = x509.SubjectAlternativeName([_host(host) for host in hosts])
    serving = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    leaf = x509.BasicConstraints(ca=False, path_length=None)
    builder = builder.add_extension(names, critical=False).add_extension(serving, critical=False)
    builder = builder.add_extension(leaf, critical=True)
    builder = builder.add_extension(_usage(authority=False), critical=True)
    return _signed(builder, ec.generate_private_key(ec.SECP256R1()), signer=_key(authority.key_pem))


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _begun(subject: x509.Name, now: datetime, lifetime: timedelta) -> x509.CertificateBuilder:
    begin = (now - BACKDATED).replace(microsecond=0)
    builder = x509.CertificateBuilder().serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(begin).not_valid_after(begin + lifetime)
    return builder.subject_name(subject)


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    *,
    signer: ec.EllipticCurvePrivateKey,
) -> KeyPair:
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    signers = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(own, critical=False).add_extension(signers, critical=False)
    certificate = builder.public_key(key.public_key()).sign(signer, hashes.SHA256())
    return KeyPair(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_NAME_MAX])])


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        message = "this is no PEM certificate"
        raise CertificateError(message) from error


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        message = "this is no PEM private key without a password"
        raise CertificateError(message) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        message = "this is no private key of an elliptic curve"
        raise CertificateError(message)
    return key
