"""`ShareConfig`: strict reading, and one sentence for the first mistake."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.shareconfig import DEFAULT, GROUP_VERSION, KIND, ShareConfig, ShareConfigError, parse


def parameters(**fields: Any) -> dict[str, Any]:
    """Build parameters with *fields* in wire names."""
    return {"apiVersion": GROUP_VERSION, "kind": KIND, **fields}


def test_nothing_but_the_kind_means_the_defaults() -> None:
    """The library enforces, the policy is the default, the rest is not set."""
    config = parse(parameters())
    assert config == DEFAULT
    assert (config.core_policy, config.enforcement) == ("default", "hami-core")
    assert (config.priority, config.log_level) == (None, None)


def test_every_field_is_read() -> None:
    """All values of a full configuration arrive."""
    config = parse(parameters(priority=0, corePolicy="force", enforcement="none", logLevel=4))
    assert (config.priority, config.log_level) == (0, 4)
    assert (config.core_policy, config.enforcement) == ("force", "none")


@pytest.mark.parametrize(
    ("fields", "field", "value"),
    [
        ({"priority": 2}, "priority", "2"),
        ({"priority": -1}, "priority", "-1"),
        ({"priority": "1"}, "priority", '"1"'),
        ({"priority": True}, "priority", "true"),
        ({"priority": 1.0}, "priority", "1.0"),
        ({"corePolicy": "forced"}, "corePolicy", '"forced"'),
        ({"corePolicy": "Force"}, "corePolicy", '"Force"'),
        ({"corePolicy": None}, "corePolicy", "null"),
        ({"enforcement": "off"}, "enforcement", '"off"'),
        ({"enforcement": False}, "enforcement", "false"),
        ({"logLevel": 5}, "logLevel", "5"),
        ({"logLevel": "3"}, "logLevel", '"3"'),
        ({"logLevel": True}, "logLevel", "true"),
        ({"logLevel": [1]}, "logLevel", "[1]"),
        ({"apiVersion": "gpuslice.io/v1"}, "apiVersion", '"gpuslice.io/v1"'),
        ({"kind": "GpuConfig"}, "kind", '"GpuConfig"'),
    ],
)
def test_a_wrong_value_is_named(fields: dict[str, Any], field: str, value: str) -> None:
    """The sentence holds the field, the value as it was written and what is allowed."""
    with pytest.raises(ShareConfigError) as caught:
        parse(parameters(**fields))
    assert (caught.value.field, caught.value.value) == (field, value)
    assert (
        str(caught.value)
        == f"ShareConfig field `{field}` is {value}; allowed is {caught.value.allowed}"
    )


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("core_policy", "corePolicy"),
        ("corepolicy", "corePolicy"),
        ("CorePolicy", "corePolicy"),
        ("prio", "priority"),
        ("loglevel", "logLevel"),
        ("enforcment", "enforcement"),
        ("apiversion", "apiVersion"),
    ],
)
def test_a_misspelt_field_is_named_with_the_right_one(typo: str, meant: str) -> None:
    """An unknown field is refused and the nearest known one offered."""
    with pytest.raises(ShareConfigError, match=f"`{typo}` is unknown.*`{meant}` \\(did you mean"):
        parse(parameters(**{typo: 1}))


def test_an_unknown_field_lists_the_known_ones() -> None:
    """Without a near one all are named."""
    with pytest.raises(ShareConfigError) as caught:
        parse(parameters(memory="3Gi"))
    assert caught.value.field == "memory"
    assert "did you mean" not in caught.value.allowed
    assert "`logLevel`" in caught.value.allowed


@pytest.mark.parametrize("missing", ["apiVersion", "kind"])
def test_the_kind_must_be_said(missing: str) -> None:
    """Without it nobody knows how to read the rest."""
    fields = parameters()
    del fields[missing]
    with pytest.raises(ShareConfigError, match=f"`{missing}` is missing"):
        parse(fields)


@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_what_is_no_object_is_refused(value: Any) -> None:
    """Opaque parameters are an object by the API's own rule."""
    with pytest.raises(ShareConfigError, match=r"`parameters`.*an object"):
        parse(value)


def test_a_long_value_is_cut() -> None:
    """A message stays short whatever the user wrote."""
    with pytest.raises(ShareConfigError) as caught:
        parse(parameters(corePolicy="x" * 5000))
    assert len(caught.value.value) == 64


def test_half_a_surrogate_pair_is_shown_in_a_text_that_can_be_sent() -> None:
    """JSON may hold it, an answer to kubelet may not."""
    with pytest.raises(ShareConfigError) as caught:
        parse(parameters(corePolicy="\ud800"))
    assert str(caught.value).encode().decode() == str(caught.value)
    assert caught.value.value == r'"\ud800"'


@pytest.mark.parametrize("value", [10**5000, _nested(100_000)], ids=["long", "deep"])
def test_a_value_that_cannot_be_written_is_refused_all_the_same(value: Any) -> None:
    """Numbers of thousands of digits and very deep lists are no text."""
    with pytest.raises(ShareConfigError, match=r"`corePolicy` is a .* that cannot be shown"):
        parse(parameters(corePolicy=value))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=2) | st.dictionaries(st.text(max_size=4), children, max_size=2)
    ),
    max_leaves=4,
)
names = st.sampled_from(["priority", "corePolicy", "enforcement", "logLevel", "x"]) | st.text()


@given(st.dictionaries(names, json_values, max_size=4))
def test_anything_is_a_configuration_or_one_error(fields: dict[str, Any]) -> None:
    """No other exception escapes, and what passes is within the bounds."""
    try:
        config = parse({**fields, "apiVersion": GROUP_VERSION, "kind": KIND})
    except ShareConfigError:
        return
    assert isinstance(config, ShareConfig)
    assert config.priority in {None, 0, 1}
    assert type(config.priority) is not bool
    assert fields.keys() <= {
        "priority",
        "corePolicy",
        "enforcement",
        "logLevel",
        "apiVersion",
        "kind",
    }
