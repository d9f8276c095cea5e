"""The sections of `device-config.yaml`, key by key as HAMi names them.

As in HAMi a key that is left out is empty, and what HAMi does not know is passed over.
"""

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel


def _unless_empty(value: Any) -> Any:
    return "" if value is None else value


def _as_number(value: Any) -> Any:
    if isinstance(value, bool | str):
        message = "must be a number"
        raise ValueError(message)  # noqa: TRY004 - pydantic takes no other
    return value


Name = Annotated[str, BeforeValidator(_unless_empty)]
Number = Annotated[int, BeforeValidator(_as_number)]
"""A truth value or a text is none, as for HAMi (yaml.v2), whatever it could be read as."""
Scaling = Annotated[float, BeforeValidator(_as_number), Field(allow_inf_nan=False)]


class Section(BaseModel):
    """One vendor's keys."""

    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=to_camel)

    @classmethod
    def keys(cls) -> frozenset[str]:
        """Return the keys that mean something."""
        return frozenset(field.alias or name for name, field in cls.model_fields.items())


class Names(Section):
    """What most vendors have."""

    resource_count_name: Name = ""
    resource_memory_name: Name = ""
    resource_core_name: Name = ""
    memory_factor: Number = 1


class Metax(Section):
    """Whole cards and shared ones."""

    resource_count_name: Name = ""
    resource_v_count_name: Name = Field("", alias="resourceVCountName")
    resource_v_memory_name: Name = Field("", alias="resourceVMemoryName")
    resource_v_core_name: Name = Field("", alias="resourceVCoreName")
    sgpu_topology_aware: bool = False


class Enflame(Section):
    """Whole cards and DRS profiles; the last name is an older one of the profiles."""

    gcu: Name = Field("", alias="resourceNameGCU")
    drs: Name = Field("", alias="resourceNameDRSGCU")
    memory: Name = Field("", alias="resourceNameGCUMemory")
    core: Name = Field("", alias="resourceNameGCUCore")
    vgcu: Name = Field("", alias="resourceNameVGCU")
    vgcu_percentage: Name = Field("", alias="resourceNameVGCUPercentage")


class Kunlun(Section):
    """Whole devices and shared ones."""

    resource_count_name: Name = ""
    resource_v_count_name: Name = Field("", alias="resourceVCountName")
    resource_v_memory_name: Name = Field("", alias="resourceVMemoryName")


class IluvatarChip(Section):
    """One model."""

    chip_name: Name = ""
    common_word: str = Field(min_length=1)
    resource_count_name: Name = ""
    resource_memory_name: Name = ""
    resource_core_name: Name = ""


class AscendTemplate(Section):
    """One way to cut a chip."""

    name: Name = ""
    memory: Number
    ai_core: Number = 0
    ai_cpu: Number = Field(0, alias="aiCPU")


class AscendChip(Section):
    """One model."""

    chip_name: Name = ""
    common_word: str = Field(min_length=1)
    resource_name: Name = ""
    resource_memory_name: Name = ""
    resource_core_name: Name = ""
    memory_allocatable: Number = 0
    memory_capacity: Number = 0
    memory_factor: Number = 1
    ai_core: Number = 0
    ai_cpu: Number = Field(0, alias="aiCPU")
    runtime_class_name: Name = ""
    overwrite_env: bool = False
    super_pod: bool = False
    templates: tuple[AscendTemplate, ...] = ()


class Ascend(Section):
    """All models; *hami_vnpu_core* is how a node splits that does not say."""

    hami_vnpu_core: bool = False
    configs: tuple[AscendChip, ...] = ()


ILUVATAR: Final = TypeAdapter(tuple[IluvatarChip, ...])
