"""A certificate authority for tests of TLS."""

import ssl
from pathlib import Path

import trustme


class Authority:
    """A certificate authority with a server certificate for 127.0.0.1 and a client's."""

    def __init__(self, directory: Path) -> None:
        self.ca = trustme.CA()
        self.ca_file = str(directory / "ca.crt")
        self.ca.cert_pem.write_to_path(self.ca_file)
        client = self.ca.issue_cert("agent@node")
        self.client_file = str(directory / "client.pem")
        client.private_key_and_cert_chain_pem.write_to_path(self.client_file)

    def serving(self, name: str = "127.0.0.1", *, ask_client: bool = False) -> ssl.SSLContext:
        """Return a server's context for *name*."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.ca.issue_cert(name).configure_cert(context)
        if ask_client:
            context.verify_mode = ssl.CERT_REQUIRED
            self.ca.configure_trust(context)
        return context
