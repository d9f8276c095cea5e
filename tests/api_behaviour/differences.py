"""Where the simulated server is known to answer otherwise, by scene and label, and why.

A label that is listed must differ: what has become the same is to be struck out.
"""

from typing import Final

_NO_STREAMS: Final = (
    "nothing runs in simulated containers that one could look into, resize or evict by the API"
)
_GO_VALUES: Final = "a refused value is shown as JSON, not as Go prints a struct or map"
_CONVERSION: Final = "the names of Go types of the server's inside are left out of the message"
_BOOKMARK: Final = (
    "the real server marks the last bookmark of a watch from no version as the end of the initial "
    "events too, although nobody has asked for such"
)

_NULL_LISTS: Final = "1.34 writes a list of devices that is not there as null"

OF_MINOR: Final[dict[str, dict[str, dict[str, str]]]] = {
    "1.34": {"devices/fields_of_slices": dict.fromkeys(("counters", "empty"), _NULL_LISTS)},
}
"""Those of one release alone."""

KNOWN: Final[dict[str, dict[str, str]]] = {
    "kubectl/applying": dict.fromkeys(("immutable", "unknown field"), _GO_VALUES),
    "discovering/resources": dict.fromkeys(
        (
            "nodes/proxy",
            "pods/attach",
            "pods/ephemeralcontainers",
            "pods/eviction",
            "pods/exec",
            "pods/log",
            "pods/portforward",
            "pods/proxy",
            "pods/resize",
        ),
        _NO_STREAMS,
    ),
    "discovering/open_api": dict.fromkeys(
        (
            "/api/v1/namespaces/{namespace}/pods/{name}/ephemeralcontainers",
            "/api/v1/namespaces/{namespace}/pods/{name}/resize",
        ),
        _NO_STREAMS,
    ),
    "writing/requests_without_sense": {"another kind": _CONVERSION},
    "watching/time_out": {"last event": _BOOKMARK},
}
