"""Every value is changed once, and must change what is rendered: a value without effect is a lie.

The base has everything switched on, on a release that serves claims as well as HAMi's protocol.
Certificates of the extender are a Secret's there, because the chart makes others at each rendering.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from charts.values.programs import PROGRAMS, Program
from tests.charts import flips
from tests.charts.rendering import (
    Object,
    RefusedError,
    container,
    merged,
    nested,
    render,
    render_text,
)

_BASE: Final[Mapping[str, Any]] = {
    "library": {"image": {"repository": "hami-core"}},
    "networkPolicy": {"enabled": True},
    "metrics": {
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "scheduler": {"replicas": 3, "refit": {"tls": {"mode": "secret", "secret": {"name": "refit"}}}},
    "resourceQuota": {"create": True},
    "openshift": {"enabled": True},
    "webhook": {"replicas": 3},
}
_KUBERNETES: Final = "1.35.0"

_WITHOUT_EFFECT: Final = {
    "global": "helm's own; here so that the chart can be a part of another",
    "gpuResourcesEnabledOverride": "about what is in a cluster: test_guards.py renders beside one",
}
_ISSUER: Final = {"mode": "cert-manager", "certManager": {"issuerType": "issuer"}}
_WITH: Final[Mapping[str, Mapping[str, Any]]] = {
    "allowDefaultNamespace": {"namespaceOverride": "default"},
    "scheduler.kubeScheduler.enabled": {
        "scheduler": {"replicas": 1},
        "networkPolicy": {"apiServerCidrs": ["10.0.0.0/24"]},
    },
    "scheduler.refit.tls.certManager.issuerName": {"scheduler": {"refit": {"tls": _ISSUER}}},
    "scheduler.refit.tls.certManager.issuerType": {
        "scheduler": {
            "refit": {"tls": {"mode": "cert-manager", "certManager": {"issuerName": "mine"}}}
        }
    },
    "webhook.service.nodePort": {"webhook": {"service": {"type": "NodePort"}}},
    "webhook.tls.certManager.issuerName": {"webhook": {"tls": _ISSUER}},
    "webhook.tls.certManager.issuerType": {
        "webhook": {"tls": {"mode": "cert-manager", "certManager": {"issuerName": "mine"}}}
    },
    "webhook.tls.mode": {"webhook": {"tls": {"secret": {"name": "mine"}}}},
    "webhook.tls.secret.caBundle": {
        "webhook": {"tls": {"mode": "secret", "secret": {"name": "mine"}}}
    },
    "webhook.tls.secret.name": {"webhook": {"tls": {"mode": "secret"}}},
}
"""What has to be said besides, before and after."""
_VALUES: Final[Mapping[str, Any]] = {
    "deviceConfig.content": "nvidia: {resourceCountName: example.com/gpu, defaultGPUNum: 1}",
    "deviceConfig.sections": {"nvidia": {"defaultMemory": 77}},
    "hamiCompat": {"schedulerName": "flip"},
    "metrics.prometheusRule.disabled": ["GpusliceWebhookDown"],
    "nodeConfiguration.config": {"nodeconfig": [{"name": "flip", "devicesplitcount": 7}]},
    "scheduler.enabled": False,
    "scheduler.kubeScheduler.config": {"parallelism": 7},
    "webhook.failurePolicy": "Ignore",
}
"""Values that the schema does not tell, or that are what an empty default means anyway."""
_ON_ANOTHER_RELEASE: Final = {"deviceClasses.extendedResourceName": "1.37.0"}
_REFUSED: Final = {
    "scheduler.leaderElect": "scheduler.replicas above 1 needs scheduler.leaderElect=true",
}
"""Values whose other one is refused beside the base's."""


def _text(values: Mapping[str, Any], kubernetes: str) -> str:
    try:
        return render_text(merged(_BASE, values), kubernetes=kubernetes)
    except RefusedError as error:
        return f"refused: {error}"


def _before(path: str) -> str:
    return _text(_WITH.get(path, {}), _ON_ANOTHER_RELEASE.get(path, _KUBERNETES))


def _after(path: str) -> str:
    value = _VALUES[path] if path in _VALUES else flips.another(_seen(path))
    values = merged(_WITH.get(path, {}), nested(path, value))
    return _text(values, _ON_ANOTHER_RELEASE.get(path, _KUBERNETES))


@pytest.mark.ahead(by=_after)
@pytest.mark.parametrize("path", [each for each in flips.leaves() if each not in _WITHOUT_EFFECT])
def test_every_value_changes_something(path: str) -> None:
    """Another value renders other objects, or is refused where that is what it is for."""
    after = _after(path)
    if path in _REFUSED:
        assert _REFUSED[path] in after
        return
    assert not after.startswith("refused: "), after
    assert after != _before(path), f"{path} changes nothing"


def _seen(path: str) -> Object:
    """Return the schema of *path* with the default that holds in the base."""
    default: Any = _BASE
    for name in path.split("."):
        default = default.get(name) if isinstance(default, Mapping) else None
    schema = flips.leaves()[path]
    return schema if default is None else {**schema, "default": default}


@pytest.mark.parametrize("path", _WITHOUT_EFFECT)
def test_values_without_effect_are_values(path: str) -> None:
    """Nothing is excused that is not there."""
    assert path in flips.leaves()


def _arguments(objects: list[Object], name: str) -> list[str]:
    workload = {"node-agent": "DaemonSet", "webhook": "Deployment", "extender": "Deployment"}
    found = [
        container(each, name)["args"]
        for each in objects
        if each["kind"] == workload[name]
        and name in {one["name"] for one in each["spec"]["template"]["spec"]["containers"]}
    ]
    (arguments,) = found
    assert arguments[0] == name
    return [str(each) for each in arguments[1:]]


@pytest.mark.parametrize(("section", "program"), flips.SECTIONS.items(), ids=list(flips.SECTIONS))
def test_every_setting_reaches_its_program(section: str, program: Program) -> None:
    """All settings changed at once: the program reads from its flags what stands in the values."""
    said = {name: flips.another(each) for name, each in flips.settings(section).items()}
    objects = render(merged(_BASE, {section: {"settings": said}}), kubernetes=_KUBERNETES)
    given = _given(program)
    read = program.model.from_arguments(
        [*_arguments(objects, program.name), *given], program=program.name
    )
    usual = program.model.from_arguments(given, program=program.name)
    wanted = program.settings().model_validate(said)
    names = program.settings().model_fields
    assert {name: getattr(read, name) for name in names} == wanted.model_dump()
    assert [name for name in names if getattr(read, name) == getattr(usual, name)] == []


def _given(program: Program) -> list[str]:
    """Return what containers get by other ways than flags."""
    return {"node-agent": ["--node-name=a"], "webhook": ["--namespace=a"]}.get(program.name, [])


def test_every_program_has_a_place() -> None:
    """The settings of no program are forgotten here."""
    assert tuple(flips.SECTIONS.values()) == PROGRAMS
