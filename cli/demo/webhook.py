"""The real webhook of the demo: one process, asked by the simulated API server over TLS.

Its configurations are those of the chart. Only the way to it differs: the simulation has no
Services, so the API server gets an address and the authority of a certificate that is made here.
"""

import base64
from pathlib import Path
from typing import Final

import yaml

from cli.demo.programs import Program, free_port
from kube.certificates import issue, make_authority, utc_now
from kube.objects import JsonObject

NAMESPACE: Final = "gpuslice-system"
_HOST: Final = "localhost"
_TEMPLATE_GRACE_S: Final = 0.5
"""Nobody should have to wait for a minute until unused templates are gone."""


def configurations_file() -> Path:
    """Return where what the chart renders is: beside the code, or inside it if installed."""
    here = Path(__file__).resolve().parent.parent
    inside = here / "charts" / "webhook" / "configurations.yaml"
    beside = here.parent / "manifests" / "dra" / "webhook" / "configurations.yaml"
    return inside if inside.is_file() else beside


class Webhook:
    """A running webhook and the configurations by which it is asked."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        """Start it, with its log and certificates below *directory*."""
        authority = make_authority("gpuslice demo", utc_now())
        pair = issue(authority, [_HOST], utc_now())
        files = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem}
        for name, content in files.items():
            (directory / name).write_bytes(content)
        self._port = free_port()
        self._bundle = base64.b64encode(authority.certificate_pem).decode()
        flags = {
            "--namespace": NAMESPACE,
            "--kubeconfig": kubeconfig,
            "--address": "127.0.0.1",
            "--port": self._port,
            "--tls": "files",
            "--tls-cert-file": directory / "tls.crt",
            "--tls-key-file": directory / "tls.key",
            "--template-grace-s": _TEMPLATE_GRACE_S,
            "--drain-s": 0,
        }
        words = ["cli.main", "webhook"]
        self.program = Program.start("the webhook", words, flags, directory / "webhook.log")

    def configurations(self) -> list[JsonObject]:
        """Return the chart's configurations with the address of this webhook."""
        found = list(yaml.safe_load_all(configurations_file().read_text()))
        for configuration in found:
            for hook in configuration["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                url = f"https://{_HOST}:{self._port}{path}"
                hook["clientConfig"] = {"url": url, "caBundle": self._bundle}
        return found
