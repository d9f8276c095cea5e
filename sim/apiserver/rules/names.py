"""Name syntaxes: DNS labels and subdomains, label keys, DRA's qualified names.

Sources: apimachinery pkg/util/validation/validation.go; for DRA names resource/v1 types.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.apiserver.rules.findings import Findings

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
)
_MIXED_SUBDOMAIN_RULE = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.'"
_MIXED_SINCE = 37
_LABEL_MAX = 63
_SUBDOMAIN_MAX = 253
_DOMAIN_MAX = 63
_IDENTIFIER_MAX = 32


def is_dns_label(text: str) -> bool:
    """Tell whether *text* is an RFC 1123 label."""
    return len(text) <= _LABEL_MAX and _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str, limit: int = _SUBDOMAIN_MAX) -> bool:
    """Tell whether *text* is an RFC 1123 subdomain of at most *limit* characters."""
    return len(text) <= limit and _SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Tell whether *text* can be the key of a label, annotation or taint."""
    return fault_of_label_key(text) is None


def fault_of_label_key(text: str) -> str | None:
    """Return what keeps *text* from being the key of a label, annotation or taint."""
    if text.count("/") > 1:
        return "a valid label key must consist of alphanumeric characters, '-', '_' or '.'"
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return f"prefix part {_SUBDOMAIN_RULE}"
    if not name:
        return "name part must be non-empty"
    if len(name) > _LABEL_MAX:
        return f"name part must be no more than {_LABEL_MAX} bytes"
    if _LABEL_NAME.fullmatch(name) is None:
        return "name part must consist of alphanumeric characters, '-', '_' or '.'"
    return None


def is_label_value(text: str) -> bool:
    """Tell whether *text* can be the value of a label or taint."""
    return not text or (len(text) <= _LABEL_MAX and _LABEL_NAME.fullmatch(text) is not None)


def check_label(found: Findings, path: str, text: str) -> None:
    """Note a name that is no DNS label."""
    if not text:
        found.required(path)
    else:
        check_label_or_empty(found, path, text)


def check_label_or_empty(found: Findings, path: str, text: str) -> None:
    """Note a name that is no DNS label, an empty one as any other."""
    if not is_dns_label(text):
        found.invalid(
            path,
            text,
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'",
        )


def check_subdomain(found: Findings, path: str, text: str) -> None:
    """Note a name that is no DNS subdomain."""
    if not text:
        found.required(path)
    elif not is_dns_subdomain(text):
        found.invalid(path, text, _SUBDOMAIN_RULE)


def check_driver(found: Findings, path: str, text: str, *, lower: bool = False) -> None:
    """Note a name that is no driver name: a subdomain of 63 characters, upper case allowed."""
    if not text:
        found.required(path)
        return
    found.at_most_bytes(path, text, _DOMAIN_MAX)
    if not is_dns_subdomain(text.lower()):
        found.invalid(
            path,
            text,
            _SUBDOMAIN_RULE if lower or found.minor < _MIXED_SINCE else _MIXED_SUBDOMAIN_RULE,
        )


def check_pool(found: Findings, path: str, text: str) -> None:
    """Note a name that is no pool name: DNS subdomains joined by slashes."""
    if not text:
        found.required(path)
        return
    found.at_most_bytes(path, text, _SUBDOMAIN_MAX)
    for part in text.split("/"):
        check_subdomain(found, path, part)


def check_qualified(found: Findings, path: str, text: str, *, domain_needed: bool = False) -> None:
    """Note a name that cannot name an attribute or capacity: `[<domain>/]<C identifier>`."""
    domain, slash, identifier = text.rpartition("/")
    if slash:
        check_driver(found, path, domain, lower=True)
    elif domain_needed:
        found.invalid(
            path, text, "a fully qualified name must be a domain and a name separated by a slash"
        )
    found.at_most_bytes(path, identifier, _IDENTIFIER_MAX)
    if _C_IDENTIFIER.fullmatch(identifier) is None:
        found.invalid(
            path,
            identifier,
            "a valid C identifier must start with alphabetic "
            "character or '_', followed by a string of alphanumeric characters or '_'",
        )
