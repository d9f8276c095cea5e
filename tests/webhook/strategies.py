"""Requests, preferences and clusters of every kind, for properties."""

from dataclasses import replace

from hypothesis import strategies as st

from hami.preferences import NumaAlignment, Preferences, ScoringWeights
from hami.requests import NVIDIA, DeviceRequest
from tests.webhook.translating import uuid
from webhook.devicewish import Asked, TranslationSettings
from webhook.facts import ClusterFacts

SIZES = st.integers(1, 200_000)
UUIDS = st.one_of(
    st.integers(0, 9).map(uuid), st.from_regex(r"MIG-[0-9a-f-]{1,64}", fullmatch=True)
)
WORDS = st.one_of(
    st.sampled_from(["a10", "a100", "nvidia-", "h100"]), st.text(min_size=1, max_size=12)
)
POLICIES = st.sampled_from(["binpack", "spread", "topology-aware", "mutex", "numa"])

PREFERENCES = st.builds(
    Preferences,
    use_types=st.lists(WORDS, max_size=3).map(tuple),
    nouse_types=st.lists(WORDS, max_size=3).map(tuple),
    use_uuids=st.lists(UUIDS, max_size=3).map(tuple),
    nouse_uuids=st.lists(UUIDS, max_size=3).map(tuple),
    numa_bind=st.booleans(),
    numa_alignment=st.none() | st.sampled_from(NumaAlignment),
    modes=st.none() | st.sampled_from(["hami-core", "mig", "hami-core,mig", "mps"]),
    gpu_policies=st.lists(POLICIES, max_size=3, unique=True).map(tuple),
    node_policy=st.none() | st.sampled_from(["binpack", "spread"]),
    scoring_weights=st.none() | st.just(ScoringWeights(slot=1, core=1, memory=3)),
)
DEVICES = st.builds(
    DeviceRequest,
    word=st.just(NVIDIA),
    count=st.integers(1, 33),
    memory_mib=st.none() | SIZES,
    memory_percent=st.integers(1, 100),
    cores=st.integers(0, 100),
    priority=st.none() | st.integers(0, 2),
    is_limited=st.booleans(),
).map(lambda made: made if made.memory_mib is None else replace(made, memory_percent=None))
FACTS = st.builds(
    ClusterFacts,
    gpus_by_memory_mib=st.dictionaries(SIZES, st.integers(1, 9), max_size=12),
    gpus_by_shares=st.dictionaries(st.integers(1, 64), st.integers(1, 9), max_size=10),
    mig_by_memory_mib=st.dictionaries(SIZES, st.integers(1, 9), max_size=12),
    models=st.frozensets(st.sampled_from(["NVIDIA A10", "NVIDIA A100-SXM4-80GB"])),
    fill_levels=st.booleans(),
    counts_are_distinct=st.booleans(),
)
SETTINGS = st.builds(
    TranslationSettings,
    core_policy=st.sampled_from(["default", "force", "disable"]),
    fallback_sizes_mib=st.sampled_from([(), (24564,), (24564, 81920)]),
    fallback_shares=st.sampled_from([(), (10,)]),
    prefer_fill_levels=st.booleans(),
)
ASKED = st.builds(
    Asked,
    device=DEVICES,
    preferences=PREFERENCES,
    facts=FACTS,
    settings=SETTINGS,
    path=st.just("spec.containers[0]"),
)
