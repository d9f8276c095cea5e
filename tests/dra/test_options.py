"""Which ShareConfig counts, and who may ask for what."""

from typing import Any

import pytest

from dra.allocation import AllocatedDevice, ConfigEntry
from dra.options import Privileges, resolve
from gpu.refusal import RefusedError
from kube.shareconfig import DEFAULT, ShareConfig
from tests.dra.builders import a_config, a_gpu, a_mig_gpu, a_share, a_whole, an_allocation

GPU = a_share(a_gpu(0), request="gpu")
LARGE = a_share(a_gpu(0), request="gpu/large")
OTHER = a_share(a_gpu(1), request="other")
WHOLE = a_whole(a_gpu(2), request="whole")
MIG = a_whole(a_mig_gpu(3).mig_devices[0], request="mig")


def of_class(*requests: str, **fields: Any) -> ConfigEntry:
    """Return an entry that a DeviceClass brought."""
    return a_config(*requests, from_class=True, **fields)


def resolved(
    *configs: ConfigEntry,
    devices: tuple[AllocatedDevice, ...] = (GPU,),
    privileges: Privileges | None = None,
) -> ShareConfig:
    """Return what *configs* come to for *devices*, those with consumed capacity being limited."""
    limited = [each.consumed is not None and not each.admin for each in devices]
    allocation = an_allocation(*devices, configs=configs)
    return resolve(allocation, limited, privileges or Privileges())


def refusal_of(*configs: ConfigEntry, **options: Any) -> str:
    """Return why *configs* are refused."""
    with pytest.raises(RefusedError) as caught:
        resolved(*configs, **options)
    return str(caught.value)


def test_without_configuration_the_default_counts() -> None:
    """HAMi-core, its own policy, no priority."""
    config = resolved()
    assert config == DEFAULT
    assert (config.enforcement, config.core_policy) == ("hami-core", "default")


LEVEL_1: dict[str, Any] = {"logLevel": 1}
LEVEL_2: dict[str, Any] = {"logLevel": 2}


@pytest.mark.parametrize(
    ("configs", "devices", "level"),
    [
        pytest.param([a_config(**LEVEL_1)], [GPU], 1, id="for all"),
        pytest.param([a_config("gpu", **LEVEL_1)], [GPU], 1, id="by name"),
        pytest.param([a_config("gpu", **LEVEL_1)], [LARGE], 1, id="main part of a subrequest"),
        pytest.param([a_config("gpu/large", **LEVEL_1)], [LARGE], 1, id="subrequest"),
        pytest.param([a_config("gpu/small", **LEVEL_1)], [LARGE], None, id="other subrequest"),
        pytest.param([a_config("gp", **LEVEL_1)], [GPU], None, id="no prefix match"),
        pytest.param([a_config("other", **LEVEL_1)], [GPU], None, id="other request"),
        pytest.param([of_class("gpu", **LEVEL_1)], [GPU], 1, id="class"),
        pytest.param(
            [of_class("gpu", **LEVEL_1), a_config(**LEVEL_2)], [GPU], 2, id="claim beats class"
        ),
        pytest.param(
            [a_config(**LEVEL_2), of_class("gpu", **LEVEL_1)],
            [GPU],
            2,
            id="claim beats class in any order",
        ),
        pytest.param(
            [of_class(**LEVEL_1), of_class(**LEVEL_2)], [GPU], 2, id="later class entry wins"
        ),
        pytest.param(
            [a_config("gpu", **LEVEL_1), a_config(**LEVEL_2)], [GPU], 2, id="later beats named"
        ),
        pytest.param(
            [a_config(**LEVEL_2), a_config("gpu", **LEVEL_1)], [GPU], 1, id="later claim entry wins"
        ),
        pytest.param(
            [of_class("gpu", **LEVEL_1), a_config("other", **LEVEL_2)],
            [GPU],
            1,
            id="a claim entry for others does not count",
        ),
        pytest.param(
            [a_config("gpu", "other", **LEVEL_1)] * 2, [GPU, OTHER], 1, id="repeated entries"
        ),
    ],
)
def test_the_strongest_entry_wins(
    configs: list[ConfigEntry], devices: list[AllocatedDevice], level: int | None
) -> None:
    """Claim before class, later before earlier, by whole or main request name."""
    assert resolved(*configs, devices=tuple(devices)).log_level == level


def test_the_strongest_entry_wins_whole() -> None:
    """Nothing of a weaker entry shines through."""
    config = resolved(of_class("gpu", corePolicy="force"), a_config(logLevel=1))
    assert (config.core_policy, config.log_level) == ("default", 1)


def test_an_unknown_field_is_named_with_what_was_meant() -> None:
    """A typo would lift a limit in silence."""
    said = refusal_of(a_config(corePolice="force"))
    assert said.startswith("ShareConfigInvalid: devices.config.opaque.parameters.corePolice")
    assert "`corePolicy` (did you mean it?)" in said


def test_an_entry_that_does_not_apply_is_checked_too() -> None:
    """A mistake is told before the day on which it matters."""
    assert "ShareConfigInvalid" in refusal_of(a_config("other", priority=2))


def test_a_foreign_kind_is_refused() -> None:
    """Configuration for us of a kind we do not know asks for something that we do not do."""
    entry = ConfigEntry(
        from_class=False, requests=(), parameters={"apiVersion": "x/v1", "kind": "MpsConfig"}
    )
    assert "ShareConfigInvalid" in refusal_of(entry)


PRIVILEGED: list[dict[str, Any]] = [
    {"enforcement": "none"},
    {"corePolicy": "disable"},
    {"priority": 0},
]
NOBODY = Privileges(unlimited_namespaces=frozenset(), priority_namespaces=frozenset())


@pytest.mark.parametrize("fields", PRIVILEGED)
def test_privileges_are_for_listed_namespaces(fields: dict[str, Any]) -> None:
    """The refusal names field, value and namespace; the right list or `*` allows it."""
    (field, value), *_ = fields.items()
    said = refusal_of(a_config(**fields), privileges=NOBODY)
    assert said.startswith(
        f"ShareConfigNotAllowed: devices.config.opaque.parameters.{field}: `{value}`"
    )
    assert "`team-a`" in said
    for listed in ("team-a", "*"):
        both = frozenset({"team-b", listed})
        allowed = Privileges(unlimited_namespaces=both, priority_namespaces=both)
        assert resolved(a_config(**fields), privileges=allowed) != DEFAULT
    others = frozenset({"team-b", "team", "team-a-2"})
    privileges = Privileges(unlimited_namespaces=others, priority_namespaces=others)
    assert "ShareConfigNotAllowed" in refusal_of(a_config(**fields), privileges=privileges)


def test_the_lists_do_not_stand_for_each_other() -> None:
    """Who may have priority may not do without limits, and the reverse."""
    priority = Privileges(priority_namespaces=frozenset({"*"}), unlimited_namespaces=frozenset())
    assert "enforcement" in refusal_of(a_config(enforcement="none"), privileges=priority)
    assert "corePolicy" in refusal_of(a_config(corePolicy="disable"), privileges=priority)
    unlimited = Privileges(unlimited_namespaces=frozenset({"*"}), priority_namespaces=frozenset())
    assert "priority" in refusal_of(a_config(priority=0), privileges=unlimited)


@pytest.mark.parametrize("fields", PRIVILEGED)
def test_a_class_may_ask_for_anything(fields: dict[str, Any]) -> None:
    """Only administrators write classes."""
    config = resolved(of_class("gpu", **fields), privileges=NOBODY)
    assert config != DEFAULT


def test_a_claim_may_not_repeat_what_its_class_may() -> None:
    """The claim's entry is the one that counts, and it is the user's."""
    configs = (of_class("gpu", enforcement="none"), a_config(enforcement="none"))
    assert "ShareConfigNotAllowed" in refusal_of(*configs, privileges=NOBODY)


@pytest.mark.parametrize("fields", [{"corePolicy": "force"}, {"priority": 1}, {"logLevel": 4}])
def test_the_rest_is_for_everybody(fields: dict[str, Any]) -> None:
    """Stricter limits, lower priority and more log lines take nothing from anybody."""
    assert resolved(a_config(**fields), privileges=NOBODY) != DEFAULT


def test_defaults_are_no_privileges_for_limits_and_all_for_priority() -> None:
    """Without settings nobody runs without limits, as HAMi everybody may have priority 0."""
    assert resolved(a_config(priority=0)).priority == 0
    assert "ShareConfigNotAllowed" in refusal_of(a_config(enforcement="none"))


def test_shares_of_one_claim_need_one_configuration() -> None:
    """HAMi-core reads its options once per container."""
    said = refusal_of(a_config("gpu", logLevel=1), devices=(GPU, OTHER))
    assert said.startswith("ShareConfigConflict: devices.config: `gpu, other`")
    same = resolved(
        a_config("gpu", logLevel=1), a_config("other", logLevel=1), devices=(GPU, OTHER)
    )
    assert same.log_level == 1


@pytest.mark.parametrize("device", [WHOLE, MIG])
def test_a_configuration_that_names_a_whole_device_is_refused(device: AllocatedDevice) -> None:
    """Who named it expects an effect; there is none."""
    entry = a_config(device.request, logLevel=1)
    said = refusal_of(entry, devices=(GPU, device))
    assert said.startswith(f"ShareConfigDoesNotFit: devices.config.requests: `{device.request}`")


def test_a_configuration_for_all_passes_whole_devices_by() -> None:
    """It is for those that it fits, and so is a class's."""
    assert resolved(a_config(logLevel=1), devices=(WHOLE, GPU, MIG)).log_level == 1
    assert resolved(of_class("whole", logLevel=1), devices=(WHOLE,)) == DEFAULT


def test_a_share_counts_beside_administrative_access_to_its_gpu() -> None:
    """Two results for one device are told apart, in either order."""
    admin = a_whole(a_gpu(0), request="watch", admin=True)
    entry = a_config("gpu", logLevel=1)
    assert resolved(entry, devices=(GPU, admin)).log_level == 1
    assert resolved(entry, devices=(admin, GPU)).log_level == 1
