"""What the node agent is told: its settings, the nodes' configuration, the extender."""

from typing import Any, Final

import pytest

from hami import nodeconfig_reading
from tests.charts.nodeagent import daemon_set, mounts, rendered, settings
from tests.charts.rendering import RefusedError, merged, nested, of_kind, one

CONFIG: Final = {"nodeconfig": [{"name": "node-a", "devicesplitcount": 4}]}


def test_namespaces_without_limits_are_the_webhooks() -> None:
    """One value feeds both, unless the agents are told otherwise."""
    one_value = nested("webhook.settings.uncontrolledNamespaces", ["lab", "bench"])
    assert settings(one_value).unlimited_namespaces == ("lab", "bench")
    own = merged(one_value, nested("kubeletPlugin.settings.unlimitedNamespaces", ["lab"]))
    assert settings(own).unlimited_namespaces == ("lab",)


def test_the_administrator_has_the_last_word() -> None:
    """Settings become flags, then come arguments as they are; lists, switches and numbers too."""
    values = nested(
        "kubeletPlugin",
        {
            "settings": {
                "ignoredXids": ["13", "31"],
                "allowDual": True,
                "feedback": False,
                "minimumShareMib": 1048576,
            },
            "extraArgs": ["--log-level=debug"],
        },
    )
    read = settings(values)
    assert (read.ignored_xids, read.allow_dual, read.feedback) == (("13", "31"), True, False)
    assert (read.minimum_share_mib, read.log_level) == (1048576, "debug")


def test_an_external_node_configuration_stands_for_the_inline_one_wherever_it_is() -> None:
    """Both are mounted, the external one also when it is made later."""
    values = {"nodeConfiguration": {"externalConfigName": "mine", "config": CONFIG}}
    read = settings(values, kubernetes="1.33.0")
    agent = daemon_set(values, kubernetes="1.33.0")
    assert read.external_node_config is not None
    assert read.node_config is not None
    external = mounts(agent)[str(read.external_node_config.parent)]["configMap"]
    assert external == {"name": "mine", "optional": True}
    inline = mounts(agent)[str(read.node_config.parent)]["configMap"]
    assert inline == {"name": "gpuslice-node-config"}


@pytest.mark.parametrize("given", [CONFIG, '{"nodeconfig": [{"name": "node-a"}]}'])
def test_an_inline_node_configuration_is_one_that_the_agent_reads(given: Any) -> None:
    """As a mapping or as the text of HAMi's file."""
    values = {"nodeConfiguration": {"config": given}}
    found = one(rendered(values, kubernetes="1.33.0"), "ConfigMap", "gpuslice-node-config")
    text = found["data"]["config.json"]
    assert [entry.name for entry in nodeconfig_reading.parse(text).entries] == ["node-a"]


def test_no_node_configuration_is_the_default() -> None:
    """Nothing is mounted, made or named."""
    read = settings(kubernetes="1.33.0")
    assert (read.node_config, read.external_node_config) == (None, None)
    names = {
        each["metadata"]["name"] for each in of_kind(rendered(kubernetes="1.33.0"), "ConfigMap")
    }
    assert "gpuslice-node-config" not in names


def test_a_node_configuration_is_refused_where_nobody_reads_it() -> None:
    """With claims alone, the chart says with which modes it acts."""
    for given in ({"externalConfigName": "mine"}, {"config": CONFIG}):
        with pytest.raises(RefusedError, match=r"nodeConfiguration: .*mode auto or hami"):
            rendered({"mode": "dra", "nodeConfiguration": given})


@pytest.mark.parametrize(
    "after",
    [
        nested("deviceConfig.sections.nvidia.resourceCountName", "example.com/gpu"),
        nested("deviceConfig.existingConfigMap", "mine"),
        nested("sharing.splitCount", 4),
        nested("nodeConfiguration.config", CONFIG),
        nested("nodeConfiguration.externalConfigName", "mine"),
    ],
)
def test_agents_are_made_anew_when_what_they_read_changes(after: dict[str, Any]) -> None:
    """A checksum in the pod template is another one then, and the same from both helms."""

    def sums(values: dict[str, Any], helm: int) -> list[str]:
        agent = daemon_set(values, kubernetes="1.33.0", helm=helm)
        annotations = agent["spec"]["template"]["metadata"]["annotations"]
        return [value for key, value in annotations.items() if key.startswith("checksum/")]

    assert sums({}, 4) != sums(after, 4)
    assert sums(after, 3) == sums(after, 4)


def test_agents_ask_the_extender_where_there_is_one() -> None:
    """The address is the Service's; of the certificate they have the authority alone."""
    read = settings(kubernetes="1.33.0")
    assert read.refit_endpoint == "https://gpuslice-scheduler.gpuslice-system.svc/refit"
    assert read.refit_ca_file is not None
    secret = mounts(daemon_set(kubernetes="1.33.0"))[str(read.refit_ca_file.parent)]["secret"]
    assert [each["key"] for each in secret["items"]] == ["ca.crt"]
    for values, kubernetes in (
        (nested("scheduler.refit.enabled", False), "1.33.0"),
        (nested("scheduler.enabled", False), "1.33.0"),
        ({}, "1.37.2"),
    ):
        assert settings(values, kubernetes=kubernetes).refit_endpoint == ""
