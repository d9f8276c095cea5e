"""The client over TLS: whom it trusts, and how it shows who it is."""

from pathlib import Path

import pytest

from kube.client import Client
from kube.config import ClientConfig
from kube.errors import ConfigError, ConnectionFailedError
from tests.fakes.authority import Authority
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer


def client_of(url: str, **settings: object) -> Client:
    """Build a client for *url*."""
    return Client(
        ClientConfig(host=url, **settings),  # type: ignore[arg-type]
        user_agent="test",
        timeout_s=15,
    )


def say_ok(_request: Request, exchange: Exchange) -> None:
    """Answer everything with an empty object."""
    exchange.json({})


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Make a fresh authority."""
    return Authority(tmp_path)


def test_tls_is_verified_against_the_given_authority(authority: Authority) -> None:
    """File and PEM text both work; without either the server is a stranger."""
    with ScriptedServer(say_ok, tls=authority.serving()) as server:
        by_file = client_of(server.url, ca_file=authority.ca_file)
        by_text = client_of(server.url, ca_data=Path(authority.ca_file).read_text(encoding="ascii"))
        stranger = client_of(server.url)
        assert by_file.get("/x") == by_text.get("/x") == b"{}"
        with pytest.raises(ConnectionFailedError, match="certificate verify failed"):
            stranger.get("/x")
        for client in (by_file, by_text, stranger):
            client.close()


def test_tls_checks_the_name_of_the_server(authority: Authority) -> None:
    """Another name fails unless it is the one to expect."""
    tls = authority.serving("kubernetes.default.svc")
    with ScriptedServer(say_ok, tls=tls) as server:
        strict = client_of(server.url, ca_file=authority.ca_file)
        told = client_of(
            server.url, ca_file=authority.ca_file, tls_server_name="kubernetes.default.svc"
        )
        with pytest.raises(ConnectionFailedError):
            strict.get("/x")
        assert told.get("/x") == b"{}"
        strict.close()
        told.close()


def test_a_client_certificate_is_presented(authority: Authority) -> None:
    """A server that asks for one lets us in with it only."""
    with ScriptedServer(say_ok, tls=authority.serving(ask_client=True)) as server:
        known = client_of(
            server.url,
            ca_file=authority.ca_file,
            client_cert_file=authority.client_file,
            client_key_file=authority.client_file,
        )
        unknown = client_of(server.url, ca_file=authority.ca_file)
        assert known.get("/x") == b"{}"
        with pytest.raises(ConnectionFailedError):
            unknown.get("/x")
        known.close()
        unknown.close()


def test_unusable_certificates_are_named_at_once(tmp_path: Path) -> None:
    """A missing authority and a broken one fail before the first request."""
    broken = tmp_path / "ca.crt"
    broken.write_text("no PEM")
    for path in (tmp_path / "absent", broken):
        with pytest.raises(ConfigError, match="certificates for https://x"):
            client_of("https://x", ca_file=str(path))
