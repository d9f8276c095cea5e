"""The node on which claims are decided here: shared, partitioned and odd GPUs, one in use."""

from typing import Any, Final

from dra.devices import SharingPolicy
from dra.options import Privileges
from dra.plan import Rules
from dra.record import PreparedClaim
from gpu import names
from gpu.model import Gpu, MigDevice
from tests.dra.builders import a_claim, a_gpu, a_held, a_mig_gpu, a_record, a_result, a_view

SHARED: Final = (a_gpu(0), a_gpu(1))
PARTITIONED: Final = a_mig_gpu(2)
UNIFIED: Final = a_gpu(3, memory_mib=None)
GPUS: Final = (*SHARED, PARTITIONED, UNIFIED)
VIEW: Final = a_view(*GPUS)
RULES: Final = Rules(
    privileges=Privileges(unlimited_namespaces=frozenset({"trusted"})), minimum_memory_mib=512
)
SHARES: Final = dict.fromkeys(VIEW.devices, SharingPolicy().shares_per_gpu)
HELD_MIB: Final = 12_000
OTHERS: Final[tuple[PreparedClaim, ...]] = (
    a_record(1, a_held(SHARED[0], memory_mib=HELD_MIB, cores_percent=40)),
    a_record(2, a_held(PARTITIONED.mig_devices[1])),
)


def _config(source: str, *requests: str, **fields: Any) -> dict[str, Any]:
    parameters = {"apiVersion": "gpuslice.io/v1alpha1", "kind": "ShareConfig", **fields}
    opaque = {"driver": names.DRIVER, "parameters": parameters}
    return {"source": source, "requests": list(requests), "opaque": opaque}


def _with_configs(claim: dict[str, Any], *configs: dict[str, Any]) -> dict[str, Any]:
    claim["status"]["allocation"]["devices"]["config"] = list(configs)
    return claim


def _whole(device: Gpu | MigDevice, **changes: Any) -> dict[str, Any]:
    changes["device"] = names.device_name(device.uuid)
    return a_result(SHARED[0], None, **changes)


def _alternatives(claim: dict[str, Any]) -> dict[str, Any]:
    first = [{"name": "big", "deviceClassName": names.CLASS_SHARE}, {"name": "small"}]
    claim["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": first}]
    return claim


def _pending(claim: dict[str, Any]) -> dict[str, Any]:
    del claim["status"]["allocation"]
    return claim


def _consumed(memory: str, cores: str) -> dict[str, str]:
    return {"memory": memory, "cores": cores, "shares": "1"}


CLAIMS: Final[tuple[dict[str, Any], ...]] = (
    a_claim(a_result(SHARED[0])),
    a_claim(a_result(SHARED[1], consumedCapacity=_consumed("2Gi", "30"))),
    a_claim(a_result(SHARED[0], "1Gi"), a_result(SHARED[1], request="other")),
    a_claim(a_result(SHARED[1], "1Gi"), a_result(SHARED[1], "500Mi", shareID="second")),
    a_claim(a_result(SHARED[1], consumedCapacity=_consumed("16000Mi", "0"))),
    a_claim(_whole(SHARED[1])),
    a_claim(_whole(UNIFIED)),
    a_claim(_whole(PARTITIONED.mig_devices[0])),
    a_claim(a_result(SHARED[1]), _whole(SHARED[0], request="look", adminAccess=True)),
    a_claim(a_result(SHARED[0]), a_result(SHARED[1], driver="gpu.nvidia.com", pool="x")),
    _alternatives(a_claim(a_result(SHARED[1], request="gpu/big"))),
    _pending(a_claim(a_result(SHARED[0]))),
    _with_configs(
        a_claim(a_result(SHARED[1], consumedCapacity=_consumed("3Gi", "100"))),
        _config("FromClass", corePolicy="force"),
        _config("FromClaim", "gpu", priority=1, logLevel=3),
    ),
    _with_configs(
        a_claim(a_result(SHARED[1]), namespace="trusted"), _config("FromClaim", enforcement="none")
    ),
)
