"""Claims as the API server hands them out, up to the CDI spec that they lead to.

What comes out is computed again from the JSON alone: how much of which GPU each result consumed,
the sums over the GPUs, and the variables by which HAMi-core enforces them.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any, Final

from dra import overlap
from dra.claims import fetch, read_allocation
from dra.journal import encode_line
from dra.plan import plan, warnings
from dra.record import PREPARED_CLAIM, PreparedClaim
from gpu import names
from gpu.refusal import RefusedError
from kube.client import Client
from kube.config import ClientConfig
from tests.dra.builders import BOOT_ID, NODE, UID
from tests.dra.nodes import Reference
from tests.fuzz import node
from tests.fuzz.mutation import spoiled_text
from tests.fuzz.quantities import expected
from tests.fuzz.running import expect

_MIB: Final = 2**20


class CannedClient(Client):
    """Answers every request with *body*: a million real ones would take an hour."""

    def __init__(self) -> None:
        """Prepare an empty answer."""
        super().__init__(ClientConfig(host="http://127.0.0.1:1"), user_agent="fuzz")
        self.body = b""

    def get(self, _path: str, _params: Mapping[str, str] | None = None) -> bytes:
        """Return the body."""
        return self.body


_CLIENT: Final = CannedClient()


def decide(body: bytes) -> tuple[PreparedClaim, bytes]:
    """Return record and CDI spec of the claim in *body*, as prepare makes them."""
    _CLIENT.body = body
    allocation = read_allocation(fetch(_CLIENT, Reference(uid=UID)), pool=NODE)
    record = plan(allocation, node.VIEW, node.RULES, boot_id=BOOT_ID)
    overlap.check(record, node.OTHERS, node.VIEW.devices, node.SHARES)
    return record, node.VIEW.renderer.render(record) if record.devices else b""


def expect_record(record: PreparedClaim, claim: Mapping[str, Any]) -> None:
    """Hold *record* against the *claim* that it was made from."""
    results = claim["status"]["allocation"].get("devices", {}).get("results", [])
    ours = [each for each in results if each["driver"] == names.DRIVER]
    expect(len(record.devices) == len(ours), "devices and results are not as many")
    for device, result in zip(record.devices, ours, strict=True):
        expect(device.device == result["device"], "another device")
        consumed = result.get("consumedCapacity")
        gpu = node.VIEW.devices[device.device]
        whole_mib = (gpu.mig or gpu.gpu).memory_mib or 0
        wanted = [Fraction(whole_mib * _MIB), Fraction(100), Fraction(1)]
        if consumed is not None:
            wanted = [expected(consumed[each]) or Fraction() for each in _CAPACITIES]
            expect(wanted[0] > 0, "memory is nothing")
            expect(wanted[2] > 0, "shares are nothing")
        found = [device.memory_mib * _MIB, device.cores_percent, device.shares]
        expect(found == wanted, f"another amount: {found} and not {wanted}")
        expect(device.dedicated == (consumed is None), "dedicated although shared, or the reverse")
    expect(record.limits or not _has_to_be_limited(record), "a share has no limit")
    if record.limits:
        _expect_sums(record)


def expect_spec(record: PreparedClaim, spec: Mapping[str, Any]) -> None:
    """Hold the variables in *spec* against the limits of *record*."""
    env = dict(text.split("=", 1) for text in spec["containerEdits"]["env"])
    limiting = {key for key in env if "_LIMIT_" in key}
    wanted: dict[str, str] = {}
    for index, limit in enumerate(record.limits):
        expect(limit.memory_mib > 0, "no memory is allowed")
        expect(0 < limit.cores_percent <= 100, "cores are out of range")
        wanted[f"CUDA_DEVICE_MEMORY_LIMIT_{index}"] = f"{limit.memory_mib}m"
        wanted[f"CUDA_DEVICE_SM_LIMIT_{index}"] = f"{limit.cores_percent}"
    expect({key: env[key] for key in limiting} == wanted, f"other variables: {env}")


_CAPACITIES: Final = (names.CAPACITY_MEMORY, names.CAPACITY_CORES, names.CAPACITY_SHARES)


def _has_to_be_limited(record: PreparedClaim) -> bool:
    if record.namespace == "trusted":
        return False
    held: Counter[str] = Counter()
    for device in record.devices:
        if device.dedicated or device.admin:
            return False
        held[device.uuid] += device.memory_mib
    whole = {str(gpu.uuid): gpu.memory_mib or 0 for gpu in node.GPUS}
    return any(memory < whole[uuid] for uuid, memory in held.items() if uuid in whole)


def _expect_sums(record: PreparedClaim) -> None:
    memory: dict[str, int] = {}
    cores: dict[str, int] = {}
    for device in record.devices:
        gpu = node.VIEW.devices[device.device].gpu
        held_mib = (gpu.memory_mib or 0) if device.admin else device.memory_mib
        share = 100 if device.admin or device.cores_percent == 0 else device.cores_percent
        memory[gpu.uuid] = min(gpu.memory_mib or 0, memory.get(gpu.uuid, 0) + held_mib)
        cores[gpu.uuid] = min(100, cores.get(gpu.uuid, 0) + share)
    found = {each.uuid: (each.memory_mib, each.cores_percent) for each in record.limits}
    expect(found == {uuid: (memory[uuid], cores[uuid]) for uuid in memory}, f"other sums: {found}")


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims near valid ones, decided and rendered."""

    decide: Callable[[bytes], tuple[PreparedClaim, bytes]] = field(default=decide)
    name: str = "claim-status"
    weight: int = 10

    def make(self, rng: Random) -> bytes:
        """Return a claim's JSON."""
        return spoiled_text(rng, rng.choice(node.CLAIMS), donor=rng.choice(node.CLAIMS))

    def check(self, sample: bytes) -> bool:
        """Refuse with our own error, or give what the JSON says, twice the same."""
        try:
            record, spec = self.decide(sample)
        except RefusedError as error:
            expect(error.refusal.code, "a refusal without a code")
            str(error).encode()
            return False
        # Of fields that nobody reads any number is taken.
        claim = json.loads(sample, parse_int=_number)
        expect_record(record, claim)
        if spec:
            expect_spec(record, json.loads(spec))
        for warning in warnings(record, node.RULES):
            str(warning).encode()
        encode_line(PREPARED_CLAIM.dump_python(record, mode="json"))
        expect(self.decide(sample) == (record, spec), "another answer the second time")
        return True

    def close(self) -> None:
        """Do nothing: the client has nothing open."""


def _number(text: str) -> int:
    return int(text) if len(text) < 4000 else 0
