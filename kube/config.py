"""Where the cluster is and how we prove who we are, in a pod or with a kubeconfig.

In a pod the token in the service account's directory is valid for about an hour and kubelet
replaces the file in time, so it is read again when the file changed and every minute at the
latest. Kubeconfigs with all their credential plugins are left to the official client, which is
imported only then: it costs more memory than the whole node agent has.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from kube.errors import ConfigError

log = structlog.get_logger(__name__)

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_MAX_AGE_S: Final = 60.0

TokenSource = Callable[[], str | None]
"""Gives the bearer token to send now, `None` for no token; raises `ConfigError`."""


def no_token() -> str | None:
    """Send no token."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """One cluster and one identity; a host of `http://` is taken at its word and not verified."""

    host: str
    """Such as `https://10.96.0.1:443`; a path in it goes before every path."""
    ca_file: str | None = None
    ca_data: str | None = field(default=None, repr=False)
    """PEM text; without both the system's authorities are trusted."""
    token: TokenSource = field(default=no_token, repr=False)
    client_cert_file: str | None = None
    client_key_file: str | None = None
    tls_server_name: str | None = None
    """The name to find in the server's certificate where it is not the one in *host*."""
    namespace: str | None = None
    """Where this identity lives, if known."""


class FileToken:
    """A token in a file that others replace."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._token: str | None = None
        self._modified_ns = 0
        self._read_at_s = 0.0

    def __call__(self) -> str | None:
        """Return the newest token that can be read; raises `ConfigError` if there never was one."""
        with self._lock:
            try:
                self._refresh()
            except OSError as error:
                if self._token is None:
                    message = f"the token file {self._path} cannot be read: {error.strerror}"
                    raise ConfigError(message) from error
                log.warning("token file not read", path=str(self._path), error=error.strerror)
            return self._token

    def _refresh(self) -> None:
        modified_ns = self._path.stat().st_mtime_ns
        now_s = self._clock()
        fresh = now_s - self._read_at_s < TOKEN_MAX_AGE_S
        if self._token is not None and fresh and modified_ns == self._modified_ns:
            return
        token = self._path.read_text(encoding="ascii").strip()
        if not token and self._token is None:
            message = f"the token file {self._path} is empty"
            raise ConfigError(message)
        self._token = token or self._token
        self._modified_ns, self._read_at_s = modified_ns, now_s


def in_cluster_config(
    directory: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] | None = None
) -> ClientConfig:
    """Return the identity that kubelet gives a pod; raises `ConfigError` outside of one."""
    variables = os.environ if environ is None else environ
    host = variables.get("KUBERNETES_SERVICE_HOST", "")
    port = variables.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        message = (
            "not in a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set): "
            "name a kubeconfig"
        )
        raise ConfigError(message)
    token, ca_file = FileToken(directory / "token"), directory / "ca.crt"
    token()
    if not ca_file.is_file():
        message = f"the cluster's authority is missing: {ca_file}"
        raise ConfigError(message)
    namespace_file = directory / "namespace"
    namespace = namespace_file.read_text().strip() if namespace_file.is_file() else None
    return ClientConfig(
        host=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca_file=str(ca_file),
        token=token,
        namespace=namespace,
    )


def kubeconfig(path: str) -> ClientConfig:
    """Return what the current context of the kubeconfig at *path* says; raises `ConfigError`."""
    from kubernetes.client import Configuration  # noqa: PLC0415 - see the module's docstring
    from kubernetes.config import (  # noqa: PLC0415
        list_kube_config_contexts,
        load_kube_config,
    )

    settings = Configuration()
    try:
        load_kube_config(config_file=path, client_configuration=settings)
        _, context = list_kube_config_contexts(path)
    except Exception as error:
        # Its parsers let whatever they meet through: YAML errors, wrong types, missing keys.
        message = f"the kubeconfig {path} cannot be used: {error}"
        raise ConfigError(message) from error
    if settings.host.startswith("https:") and not settings.verify_ssl:
        message = f"the kubeconfig {path} skips the check of the server's certificate: name its CA"
        raise ConfigError(message)
    return ClientConfig(
        host=settings.host,
        ca_file=settings.ssl_ca_cert,
        token=_bearer(settings.get_api_key_with_prefix),
        client_cert_file=settings.cert_file,
        client_key_file=settings.key_file,
        tls_server_name=settings.tls_server_name,
        namespace=context["context"].get("namespace"),
    )


def _bearer(header_of: Callable[[str], str | None]) -> TokenSource:
    """Ask the official client each time, for it renews credentials that expired."""
    lock = threading.Lock()

    def token() -> str | None:
        with lock:
            header = header_of("BearerToken")
        return header.removeprefix("Bearer ") if header else None

    return token


def load_config(kubeconfig_path: str | None) -> ClientConfig:
    """Return the kubeconfig's identity, or without a path the pod's."""
    return kubeconfig(kubeconfig_path) if kubeconfig_path else in_cluster_config()
