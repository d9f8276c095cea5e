"""What is fixed of each vendor: words, keys of annotations, locks, factors, rules.

Only the names of resources are missing; those are configured. As in HAMi v2.10
(`pkg/device/<vendor>/device.go`), HCU as in what comes after it.
"""

from typing import Final

from hami.vendor_rules import plain
from hami.vendor_rules.enflame import read_drs
from hami.vendor_rules.metax import MetaxShareRule
from hami.vendor_rules.multiples import read_iluvatar, read_mthreads
from hami.vendor_rules.neuron import NeuronRule
from hami.vendor_rules.vendor import Lock, Register, Vendor

CAMBRICON: Final = Vendor(
    word="MLU",
    in_request_key="hami.io/cambricon-mlu-devices-to-allocate",
    support_key="hami.io/cambricon-mlu-devices-allocated",
    scheduler_keys=("CAMBRICON_DSMLU_PROFILE", "CAMBRICON_DSMLU_ASSIGNED"),
    lock=Lock.CAMBRICON,
    memory_factor=256,
    default_cores=100,
    use_uuid_keys=("cambricon.com/use-gpuuuid",),
    nouse_uuid_keys=("cambricon.com/nouse-gpuuuid",),
    rule=plain.read_cambricon,
)
DCU: Final = Vendor(
    word="DCU",
    in_request_key="hami.io/dcu-devices-to-allocate",
    support_key="hami.io/dcu-devices-allocated",
    register_key="hami.io/node-dcu-register",
    handshake_key="hami.io/node-handshake-dcu",
    register=Register.COLON,
    lock=Lock.SHARED,
    default_cores=100,
    use_uuid_keys=("hygon.com/use-gpuuuid",),
    nouse_uuid_keys=("hygon.com/nouse-gpuuuid",),
    use_type_keys=("hygon.com/use-dcutype",),
    nouse_type_keys=("hygon.com/nouse-dcutype",),
    rule=plain.read_share,
)
HCU: Final = Vendor(
    word="HCU",
    in_request_key="hami.io/hcu-devices-to-allocate",
    support_key="hami.io/hcu-devices-allocated",
    register_key="hami.io/node-hcu-register",
    handshake_key="hami.io/node-handshake-hcu",
    register=Register.COLON,
    lock=Lock.SHARED,
    default_cores=100,
    use_uuid_keys=("hygon.com/use-gpuuuid",),
    nouse_uuid_keys=("hygon.com/nouse-gpuuuid",),
    use_type_keys=("hygon.com/use-hcutype",),
    nouse_type_keys=("hygon.com/nouse-hcutype",),
    rule=plain.read_share,
)
MTHREADS: Final = Vendor(
    word="Mthreads",
    support_key="hami.io/mthreads-vgpu-devices-allocated",
    scheduler_keys=(
        # HAMi keeps it for itself and never writes it.
        "hami.io/mthreads-vgpu-devices-to-allocate",
        "mthreads.com/gpu-index",
        "mthreads.com/predicate-time",
        "mthreads.com/predicate-node",
    ),
    memory_factor=512,
    use_uuid_keys=("mthreads.ai/use-gpuuuid",),
    nouse_uuid_keys=("mthreads.ai/nouse-gpuuuid",),
    rule=read_mthreads,
)
METAX: Final = Vendor(
    word="Metax-GPU",
    in_request_key="hami.io/metax-gpu-devices-to-allocate",
    support_key="hami.io/metax-gpu-devices-allocated",
    default_cores=100,
    rule=plain.read_devices,
)
METAX_SHARE: Final = Vendor(
    word="Metax-SGPU",
    in_request_key="hami.io/metax-sgpu-devices-to-allocate",
    support_key="hami.io/metax-sgpu-devices-allocated",
    scheduler_keys=("metax-tech.com/gpu-devices-allocated", "metax-tech.com/predicate-time"),
    register_key="metax-tech.com/node-gpu-devices",
    register=Register.METAX,
    lock=Lock.SHARED,
    memory_factor=1024,
    default_cores=100,
    use_uuid_keys=("metax-tech.com/use-gpuuuid",),
    nouse_uuid_keys=("metax-tech.com/nouse-gpuuuid",),
    rule=MetaxShareRule(),
)
KUNLUN: Final = Vendor(
    word="kunlun",
    support_key="hami.io/kunlun-allocated",
    scheduler_keys=("BAIDU_COM_DEVICE_IDX",),
    use_uuid_keys=("hami.io/use-xpu-uuid", "baidu.com/use-gpuuuid"),
    nouse_uuid_keys=("hami.io/no-use-xpu-uuid", "baidu.com/nouse-gpuuuid"),
    rule=plain.read_kunlun,
)
KUNLUN_SHARE: Final = Vendor(
    word="XPU",
    in_request_key="hami.io/xpu-devices-to-allocate",
    support_key="hami.io/xpu-devices-allocated",
    register_key="hami.io/node-register-xpu",
    handshake_key="hami.io/node-handshake-xpu",
    register=Register.JSON,
    lock=Lock.SHARED,
    use_uuid_keys=("hami.io/use-xpu-uuid", "baidu.com/use-gpuuuid"),
    nouse_uuid_keys=("hami.io/no-use-xpu-uuid", "baidu.com/nouse-gpuuuid"),
    rule=plain.read_kunlun_share,
)
NEURON: Final = Vendor(
    word="AWSNeuron",
    support_key="hami.io/aws-neuron-devices-allocated",
    scheduler_keys=(
        "AWS_NEURON_IDS",
        "NEURON_ALLOC_TIME",
        "NEURON_ALLOCATED",
        "NEURON_RESOURCE_TYPE",
        "aws.amazon.com/predicate-node",
    ),
    whole_card=False,
    use_uuid_keys=("aws.amazon.com/use-neuron-uuid",),
    nouse_uuid_keys=("aws.amazon.com/nouse-neuron-uuid",),
    rule=NeuronRule(),
)
AMD: Final = Vendor(
    word="AMD",
    in_request_key="hami.io/amd-devices-to-allocate",
    support_key="hami.io/amd-devices-allocated",
    register_key="hami.io/node-amd-register",
    register=Register.JSON,
    lock=Lock.SHARED,
    default_cores=100,
    use_uuid_keys=("amd.com/use-gpu-uuid",),
    nouse_uuid_keys=("amd.com/nouse-gpu-uuid",),
    use_type_keys=("amd.com/use-gputype",),
    nouse_type_keys=("amd.com/nouse-gputype",),
    rule=plain.read_amd,
)
DRS: Final = Vendor(
    word="Enflame",
    support_key="hami.io/enflame-vgpu-devices-allocated",
    scheduler_keys=(
        "enflame.com/gcu-assigned",
        "enflame.com/gcu-assigned-time",
        "enflame.com/gcu-assigned-index",
        "enflame.com/gcu-assigned-id",
        "enflame.com/gcu-assigned-minor",
        "enflame.com/gcu-request-size",
        "assigned-containers",
    ),
    register_key="enflame.com/gcu-drs-capacity",
    register=Register.ENFLAME,
    whole_card=False,
    use_uuid_keys=("enflame.com/use-gpuuuid",),
    nouse_uuid_keys=("enflame.com/nouse-gpuuuid",),
    rule=read_drs,
)
GCU: Final = Vendor(
    word="GCU",
    in_request_key="hami.io/enflame-gcu-devices-to-allocate",
    support_key="hami.io/enflame-gcu-devices-allocated",
    default_cores=100,
    rule=plain.read_devices,
)
VASTAI: Final = Vendor(
    word="Vastai",
    in_request_key="hami.io/Vastai-devices-to-allocate",
    support_key="hami.io/Vastai-devices-allocated",
    register_key="hami.io/node-va-register",
    handshake_key="hami.io/node-handshake-va",
    register=Register.JSON,
    lock=Lock.SHARED,
    use_uuid_keys=("vastaitech.com/use-gpuuuid",),
    nouse_uuid_keys=("vastaitech.com/nouse-gpuuuid",),
    rule=plain.read_devices,
)
BIREN: Final = Vendor(
    word="Biren",
    in_request_key="hami.io/Biren-devices-to-allocate",
    support_key="hami.io/Biren-devices-allocated",
    register_key="hami.io/node-biren-register",
    handshake_key="hami.io/node-handshake-biren",
    register=Register.JSON,
    lock=Lock.SHARED,
    use_uuid_keys=("birentech.com/use-gpuuuid",),
    nouse_uuid_keys=("birentech.com/nouse-gpuuuid",),
    rule=plain.read_devices,
)


def iluvatar_chip(word: str) -> Vendor:
    """Return the vendor of one of Iluvatar's models."""
    return Vendor(
        word=word,
        in_request_key=f"hami.io/{word}-devices-to-allocate",
        support_key=f"hami.io/{word}-devices-allocated",
        register_key=f"hami.io/node-{word}-register",
        handshake_key=f"hami.io/node-handshake-{word}",
        register=Register.COLON,
        lock=Lock.SHARED,
        memory_factor=256,
        use_uuid_keys=(f"hami.io/use-{word}-uuid",),
        nouse_uuid_keys=(f"hami.io/no-use-{word}-uuid",),
        rule=read_iluvatar,
    )
