"""How CRI-O is configured, from its files: drop-ins win in the order of their names."""

from typing import Any, Final

from cli.doctor.node.view import Node

CONFIG: Final = "/etc/crio/crio.conf"
DROP_INS: Final = "/etc/crio/crio.conf.d/*"


def is_there(node: Node) -> bool:
    """Tell whether CRI-O is configured here."""
    return node.at(CONFIG).is_file() or bool(node.matching(DROP_INS))


def read(node: Node) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the files and `crio.runtime` of them; raises `UnreadableFileError`."""
    files = [path for path in (CONFIG, *node.matching(DROP_INS)) if node.at(path).is_file()]
    runtime: dict[str, Any] = {}
    for path in files:
        crio = node.toml(path).get("crio")
        found = crio.get("runtime") if isinstance(crio, dict) else None
        runtime |= found if isinstance(found, dict) else {}
    return tuple(files), runtime
