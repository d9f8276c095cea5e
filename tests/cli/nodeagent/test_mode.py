"""How a node is served, by setting and label."""

import pytest

from cli.nodeagent.mode import Mode, ModeError, by_server, decide, still_used


@pytest.mark.parametrize(
    ("wanted", "label", "mode"),
    [
        ("dra", None, Mode.DRA),
        ("dra", "dra", Mode.DRA),
        ("device-plugin", None, Mode.DEVICE_PLUGIN),
        ("device-plugin", "device-plugin", Mode.DEVICE_PLUGIN),
        ("auto", None, None),
        ("auto", "dra", Mode.DRA),
        ("auto", "device-plugin", Mode.DEVICE_PLUGIN),
    ],
)
def test_setting_and_label_agree_or_one_decides(
    wanted: str, label: str | None, mode: Mode | None
) -> None:
    """`auto` leaves it to the label, and without one to the API server."""
    assert decide(wanted, label) is mode


def test_what_the_server_keeps_decides_between_the_two() -> None:
    """GPUs can be shared in the one way or the other."""
    assert by_server(keeps_shares=True) is Mode.DRA
    assert by_server(keeps_shares=False) is Mode.DEVICE_PLUGIN


@pytest.mark.parametrize(("wanted", "label"), [("dra", "device-plugin"), ("device-plugin", "dra")])
def test_a_node_serves_one_of_both(wanted: str, label: str) -> None:
    """A label that contradicts the setting is refused, and the sentence says what to change."""
    with pytest.raises(ModeError, match=r"set --mode=auto or change the label"):
        decide(wanted, label)


@pytest.mark.parametrize("wanted", ["dra", "device-plugin", "auto"])
def test_a_label_that_says_nothing_is_refused(wanted: str) -> None:
    """An unknown value is no silent default."""
    with pytest.raises(ModeError, match=r"`plugin`: one of dra, device-plugin"):
        decide(wanted, "plugin")


def test_who_keeps_a_node_in_its_mode_is_named() -> None:
    """The first of many are named and the others counted."""
    users = [f"team/pod-{number}" for number in range(7)]
    said = str(still_used(Mode.DEVICE_PLUGIN, users))
    assert "team/pod-0, team/pod-1" in said
    assert "and 2 more" in said
    assert "team/pod-5" not in said
