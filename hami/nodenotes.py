"""Annotations of a node about devices that are registered elsewhere.

How well pairs of NVIDIA GPUs are linked is written by HAMi's plugin; which GPUs take nothing new,
by administrators; what groups of Metax GPUs lose or gain, by Metax's plugin (HAMi v2.10:
`pkg/device/nvidia/device.go`, `pkg/device/metax/device.go`).
"""

from collections.abc import Mapping
from typing import Any, Final

from hami import gojson, matching
from hami.gojson import Fields
from hami.reading import INT64_MAX, Undecodable, UnreadableError, decoded, integer
from hami.wording import shown

SCORE: Final = "hami.io/node-nvidia-score"
CORDON: Final = "hami.io/device-cordon"
METAX_LOSSES: Final = "metax-tech.com/gpu.topology.losses"
METAX_SCORES: Final = "metax-tech.com/gpu.topology.scores"
PairScores = Mapping[str, Mapping[str, int]]
"""From one UUID to another; a pair that is not there has 0."""
_GPU: Final = frozenset({"uuid", "score"})


def decode_scores(text: str) -> PairScores | Undecodable:
    """Return the scores of pairs of GPUs, or why they cannot be read."""
    return decoded(_scores, text)


def encode_scores(scores: PairScores) -> str:
    """Return the annotation as HAMi's plugin writes it; a GPU without pairs is its UUID alone."""
    return gojson.written([_written(uuid, pairs) for uuid, pairs in scores.items()])


def decode_cordon(text: str) -> frozenset[str]:
    """Return the UUIDs that take no new pods; every text is a list."""
    return frozenset(matching.members(text) or ())


def decode_topology(text: str) -> Mapping[int, int] | Undecodable:
    """Return Metax's number for each count of GPUs, or why there is none."""
    return decoded(_topology, text)


def _scores(text: str) -> PairScores:
    found = dict[str, Mapping[str, int]]()
    for index, raw in enumerate(gojson.entries(gojson.parsed(text), "the document")):
        fields = Fields(raw, _GPU, f"[{index}]")
        uuid = fields.text("uuid", needed=True)
        if uuid in found:
            message = f"GPU `{shown(uuid)}` is there twice"
            raise UnreadableError(message)
        found[uuid] = fields.integers("score", low=-INT64_MAX - 1, high=INT64_MAX)
    return found


def _written(uuid: str, pairs: Mapping[str, int]) -> dict[str, Any]:
    return {"uuid": uuid} | ({"score": gojson.sorted_keys(pairs)} if pairs else {})


def _topology(text: str) -> Mapping[int, int]:
    low, high = -INT64_MAX - 1, INT64_MAX
    found = gojson.integers(gojson.parsed(text), "", low=low, high=high)
    return {integer(count, "count", low=0): number for count, number in found.items()}
