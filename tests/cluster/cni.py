"""The pods' network: a bridge with addresses from host-local, nothing beyond the namespace."""

import json
from pathlib import Path

from tests.cluster.places import POD_RANGE


def write_config(folder: Path) -> None:
    """Write the network list that containerd reads from *folder*."""
    folder.mkdir(parents=True)
    bridge = {
        "type": "bridge",
        "bridge": "pods0",
        "isGateway": True,
        # Nobody outside is to be reached, and masquerading would need iptables.
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": POD_RANGE}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    network = {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [bridge, {"type": "loopback"}],
    }
    (folder / "10-pods.conflist").write_text(json.dumps(network, indent=1))
