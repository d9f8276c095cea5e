"""Identities: a pod's, with a token that others replace, and those of kubeconfigs."""

import base64
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme

from kube.client import Client
from kube.config import FileToken, in_cluster_config, kubeconfig, load_config
from kube.errors import ConfigError
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def service_account(directory: Path, content: str = "first") -> Path:
    """Lay out the files that kubelet mounts, with *content* as the token."""
    (directory / "token").write_text(content + "\n")
    (directory / "namespace").write_text("gpuslice")
    trustme.CA().cert_pem.write_to_path(str(directory / "ca.crt"))
    return directory


def test_a_pod_finds_its_identity(tmp_path: Path) -> None:
    """Host, authority, namespace and token come from the pod."""
    config = in_cluster_config(service_account(tmp_path), POD)
    assert config.host == "https://10.96.0.1:443"
    assert config.ca_file == str(tmp_path / "ca.crt")
    assert config.namespace == "gpuslice"
    assert config.token() == "first"


def test_a_pod_may_reach_its_server_over_ipv6(tmp_path: Path) -> None:
    """The address gets brackets."""
    environ = {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert in_cluster_config(service_account(tmp_path), environ).host == "https://[fd00::1]:443"


def test_outside_of_a_pod_a_kubeconfig_is_asked_for(tmp_path: Path) -> None:
    """The message names the variables."""
    with pytest.raises(ConfigError, match=r"KUBERNETES_SERVICE_HOST.*name a kubeconfig"):
        in_cluster_config(service_account(tmp_path), {})


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    """A service account that is not mounted says so at once."""
    (service_account(tmp_path) / missing).unlink()
    with pytest.raises(ConfigError, match=missing):
        in_cluster_config(tmp_path, POD)


def test_no_identity_shows_its_token(tmp_path: Path) -> None:
    """What may end up in a log holds no secret."""
    config = in_cluster_config(service_account(tmp_path, "s3cret"), POD)
    config.token()
    assert "s3cret" not in repr(config)


def test_a_replaced_token_is_sent_from_then_on(tmp_path: Path) -> None:
    """The next request after kubelet replaced the file carries the new token."""

    def script(_request: Request, exchange: Exchange) -> None:
        exchange.json({})

    authority = trustme.CA()
    service_account(tmp_path)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    with ScriptedServer(script, tls=serving(authority)) as server:
        port = server.url.rpartition(":")[2]
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
        client = Client(in_cluster_config(tmp_path, environ), user_agent="test")
        client.get("/a")
        replace(tmp_path / "token", "second", mtime_ns=1)
        client.get("/b")
        client.close()
    sent = [request.headers["Authorization"] for request in server.requests]
    assert sent == ["Bearer first", "Bearer second"]


def test_a_token_is_read_again_after_a_minute(tmp_path: Path) -> None:
    """A file whose time did not change is not trusted for longer."""
    path = tmp_path / "token"
    replace(path, "first", mtime_ns=5)
    now_s = 100.0
    token = FileToken(path, clock=lambda: now_s)
    assert token() == "first"
    replace(path, "second", mtime_ns=5)
    now_s = 159.0
    assert token() == "first"
    now_s = 161.0
    assert token() == "second"


def test_a_token_file_that_vanishes_or_empties_keeps_the_last_token(tmp_path: Path) -> None:
    """A bad moment of the mount does not lock us out."""
    path = tmp_path / "token"
    replace(path, "first", mtime_ns=5)
    token = FileToken(path)
    token()
    replace(path, "", mtime_ns=6)
    assert token() == "first"
    path.unlink()
    assert token() == "first"


def test_an_empty_token_file_is_an_error_at_first(tmp_path: Path) -> None:
    """An identity without a token is none."""
    (tmp_path / "token").write_text("")
    with pytest.raises(ConfigError, match="is empty"):
        FileToken(tmp_path / "token")()


def replace(path: Path, content: str, *, mtime_ns: int) -> None:
    """Put *content* in place as kubelet does, with a time of our choice."""
    fresh = path.with_suffix(".new")
    fresh.write_text(content)
    os.utime(fresh, ns=(mtime_ns, mtime_ns))
    fresh.replace(path)


def serving(authority: trustme.CA) -> ssl.SSLContext:
    """Return a server's TLS context for 127.0.0.1."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def write_kubeconfig(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    """Write a kubeconfig of one context; JSON is YAML."""
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [
                    {"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ns"}}
                ],
                "clusters": [{"name": "k", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return str(path)


def test_a_kubeconfig_with_a_token_works(tmp_path: Path) -> None:
    """Server, authority, token and namespace are those of the current context."""

    def script(_request: Request, exchange: Exchange) -> None:
        exchange.json({})

    authority = trustme.CA()
    with ScriptedServer(script, tls=serving(authority)) as server:
        pem = base64.b64encode(authority.cert_pem.bytes()).decode()
        path = write_kubeconfig(
            tmp_path / "config",
            {"server": server.url, "certificate-authority-data": pem},
            {"token": "static"},
        )
        config = load_config(path)
        client = Client(config, user_agent="test")
        assert client.get("/x") == b"{}"
        client.close()
    assert config.namespace == "ns"
    assert server.requests[0].headers["Authorization"] == "Bearer static"


def test_a_kubeconfig_without_tls_and_user_works(tmp_path: Path) -> None:
    """A simulated cluster needs neither."""
    path = write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"}, {})
    config = kubeconfig(path)
    assert config.host == "http://127.0.0.1:1"
    assert config.token() is None


def test_a_kubeconfig_names_client_certificates(tmp_path: Path) -> None:
    """Files are taken over by their paths."""
    for name in ("client.crt", "client.key"):
        (tmp_path / name).write_text("PEM")
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    path = write_kubeconfig(tmp_path / "config", {"server": "https://127.0.0.1:1"}, user)
    config = kubeconfig(path)
    assert config.client_cert_file == str(tmp_path / "client.crt")
    assert config.client_key_file == str(tmp_path / "client.key")


def test_a_credential_plugin_is_run(tmp_path: Path) -> None:
    """The official client runs it and hands over the token."""
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    plugin.chmod(0o755)
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(plugin),
            "interactiveMode": "Never",
        }
    }
    path = write_kubeconfig(tmp_path / "config", {"server": "https://127.0.0.1:1"}, user)
    assert kubeconfig(path).token() == "from-plugin"


def test_a_kubeconfig_that_skips_verification_is_refused(tmp_path: Path) -> None:
    """A server of https:// is verified or not spoken to."""
    cluster = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}
    path = write_kubeconfig(tmp_path / "config", cluster, {"token": "t"})
    with pytest.raises(ConfigError, match="skips the check"):
        kubeconfig(path)


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", "kind: Config"])
def test_an_unusable_kubeconfig_is_named(tmp_path: Path, content: str | None) -> None:
    """Missing, empty, malformed or without a context: the path is in the message."""
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=str(path)):
        kubeconfig(str(path))


def test_nothing_heavy_is_imported() -> None:
    """The modules of the node agent load neither the official client nor other big packages."""
    program = (
        "import sys, kube.logs, kube.client, kube.config, kube.reflector, kube.events, "
        "kube.views, kube.probes, kube.shareconfig, kube.quantity, kube.paths, kube.settings\n"
        "heavy = {'kubernetes', 'aiohttp', 'yaml', 'rich', 'fastapi', 'uvicorn', 'requests'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
