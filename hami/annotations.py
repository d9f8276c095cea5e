"""All codecs of HAMi's annotations in one place; each is a module of its own.

A decoder returns its value or an `Undecodable` and never raises. An encoder writes what HAMi's own
writer would, byte for byte, and raises `ValueError` for what could not be read back. The lock of a
node is in `hami.nodelock`, signs of life are in `hami.handshake`.
"""

from hami.backends import Backend, NvidiaBackend, backends
from hami.deviceids import physical_uuid
from hami.migallocations import decode_mig_allocations, encode_mig_allocations
from hami.nodenotes import (
    CORDON,
    METAX_LOSSES,
    METAX_SCORES,
    SCORE,
    PairScores,
    decode_cordon,
    decode_scores,
    decode_topology,
    encode_scores,
)
from hami.poddevices import decode_all, decode_pod_devices, encode_pod_devices
from hami.reading import Undecodable
from hami.register import decode_register, encode_register

__all__ = [
    "CORDON",
    "METAX_LOSSES",
    "METAX_SCORES",
    "SCORE",
    "Backend",
    "NvidiaBackend",
    "PairScores",
    "Undecodable",
    "backends",
    "decode_all",
    "decode_cordon",
    "decode_mig_allocations",
    "decode_pod_devices",
    "decode_register",
    "decode_scores",
    "decode_topology",
    "encode_mig_allocations",
    "encode_pod_devices",
    "encode_register",
    "encode_scores",
    "physical_uuid",
]
