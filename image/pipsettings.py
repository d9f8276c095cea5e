"""Hands this user's pip settings to the pip of a build, as secrets that no layer keeps.

Behind a proxy, with an index of one's own or an authority of one's own, pip works here and would
not in there. What names folders of this machine is left out: they are not there.
"""

import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_HANDED_ON: Final = ("index-url", "extra-index-url", "proxy", "retries", "timeout", "trusted-host")
_CERTIFICATE: Final = "cert"
_THERE: Final = "/run/secrets/ca.crt"
"""Where the Dockerfile mounts the secret `ca.crt`."""


def secrets(folder: Path) -> dict[str, Path]:
    """Return the secrets of a build by their ids; what has to be written is written to *folder*."""
    told = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        check=True,
        capture_output=True,
        text=True,
    )
    found = settings(told.stdout.splitlines())
    result = {}
    lines = [f"{name} = {value}" for name, value in found.items() if name in _HANDED_ON]
    if _CERTIFICATE in found:
        lines.append(f"{_CERTIFICATE} = {_THERE}")
        result["ca.crt"] = Path(found[_CERTIFICATE])
    path = folder / "pip.conf"
    path.touch(mode=0o600)
    path.write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")
    result["pip.conf"] = path
    return result


def settings(lines: Iterable[str]) -> dict[str, str]:
    """Return what `pip config list` has told, by name; the environment overrules files."""
    result: dict[str, str] = {}
    for line in sorted(lines, key=lambda line: line.startswith(":env:")):
        key, _, quoted = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in {"global", "install", ":env:"}:
            value = "".join(shlex.split(quoted))
            result[name.removeprefix("default-")] = value.replace("\\n", " ")
    return result
