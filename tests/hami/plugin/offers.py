"""Builders for the tests of what a node offers."""

import json
from typing import Any

from gpu.instances import Profiles, read_profiles
from gpu.model import Inventory
from gpu.nvml import Nvml
from hami.deviceconfig import NvidiaConfig
from hami.nodeconfig import EffectiveConfig, effective
from hami.nodeconfig_reading import parse
from tests.gpu.simulating import simulated

TWO_T4 = """
gpus:
  - {profile: t4, count: 2}
"""


def configured(base: NvidiaConfig | None = None, **fields: Any) -> EffectiveConfig:
    """Return what holds where one entry says *fields*."""
    text = json.dumps({"nodeconfig": [{"name": "*", **fields}]})
    return effective(parse(text), node_name="n", labels={}, base=base or NvidiaConfig())


def read(text: str) -> tuple[Inventory, Profiles]:
    """Return the GPUs that *text* describes, and into what they can be partitioned."""
    with simulated(text), Nvml() as session:
        inventory = session.inventory()
        return inventory, read_profiles(session.call, session.handles())
