"""Tests of the settings that a build's pip is handed."""

import configparser
import stat
from pathlib import Path

import pytest

from image.pipsettings import secrets, settings


def test_environment_overrules_files() -> None:
    """Settings are told by their names, and the last word is the environment's."""
    told = [
        ":env:.index-url='https://one.example.com/simple'",
        "global.index-url='https://two.example.com/simple'",
        "global.cert='/etc/ours.crt'",
        "install.trusted-host='a.example.com'",
        "list.format='json'",
        ":env:.default-timeout='180'",
    ]
    assert settings(told) == {
        "index-url": "https://one.example.com/simple",
        "cert": "/etc/ours.crt",
        "trusted-host": "a.example.com",
        "timeout": "180",
    }


def test_what_is_of_this_machine_stays_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build gets the index and the certificate's content, and no path of this machine."""
    certificate = tmp_path / "ours.crt"
    certificate.write_text("certificate")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:secret@pip.example.com/simple")
    monkeypatch.setenv("PIP_CERT", str(certificate))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    found = secrets(tmp_path)
    assert found["ca.crt"] == certificate
    written = configparser.ConfigParser()
    written.read(found["pip.conf"])
    assert written["global"]["index-url"] == "https://user:secret@pip.example.com/simple"
    assert written["global"]["cert"] == "/run/secrets/ca.crt"
    assert str(tmp_path) not in found["pip.conf"].read_text()
    assert stat.S_IMODE(found["pip.conf"].stat().st_mode) == 0o600


def test_nothing_is_handed_on_where_nothing_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without settings leaves the build's pip to its own."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_CERT", "PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "PIP_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    found = secrets(tmp_path)
    assert set(found) == {"pip.conf"}
    assert found["pip.conf"].read_text() == "[global]\n"
