"""The values of the node agent, below `kubeletPlugin`."""

from typing import Annotated

from pydantic import Field

from charts.values.kubernetes import (
    SecurityContext,
    Toleration,
    UpdateStrategy,
    Volume,
    VolumeMount,
)
from charts.values.pods import Pod
from charts.values.programs import NodeAgentValues
from charts.values.section import Label

_EVERYWHERE: list[Toleration] = [{"operator": "Exists"}]


class KubeletPlugin(Pod):
    """The node agent."""

    enabled: bool = Field(default=True, description="Whether to install the node agent.")
    settings: NodeAgentValues = Field({})
    priority_class_name: Label = Field(
        "system-node-critical", description="PriorityClass of the pods; empty takes none."
    )
    update_strategy: UpdateStrategy = Field({})
    tolerations: list[Toleration] = Field(_EVERYWHERE, description="Taints that the pods bear.")
    operator_client_label: bool = Field(default=True)
    termination_grace_period_seconds: Annotated[int, Field(ge=1)] = Field(
        15, description="How long a pod may take to end."
    )
    security_context: SecurityContext = Field(
        {}, description="Merged over the container's securityContext."
    )
    extra_volumes: list[Volume] = Field([], description="Further volumes of the pod.")
    extra_volume_mounts: list[VolumeMount] = Field(
        [], description="Further mounts of the container."
    )
