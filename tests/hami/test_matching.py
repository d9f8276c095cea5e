"""Tests of HAMi's matching of models, UUIDs and modes; the rows are those of HAMi's own tests."""

import pytest

from hami import userkeys
from hami.matching import (
    members,
    mode_matches,
    parsed_bool,
    registered_model,
    suits,
    type_matches,
    uuid_matches,
)


@pytest.mark.parametrize(
    ("uuid", "use", "nouse", "expected"),
    [
        ("abc", "", "", True),
        ("abc", "abc,123", "", True),
        ("1abc", "abc,123", "", False),
        ("abc", "", "abc,123", False),
        ("1abc", "", "abc,123", True),
        ("abc", "abc,123", "abc", False),
        ("abc", "abc,123", "456", True),
        ("abc", " abc , 123 ", "", True),
        ("abc", "   ", "", True),
        ("abc", ",", "", False),
        ("abc", "ABC", "", False),
        ("abc", "", ",", True),
    ],
)
def test_uuid(*, uuid: str, use: str, nouse: str, expected: bool) -> None:
    """A UUID matches exactly, and what excludes goes first."""
    assert uuid_matches(uuid, use=use, nouse=nouse) is expected


@pytest.mark.parametrize(
    ("use", "nouse", "expected"),
    [
        ("A100,V100", "", True),
        ("V100", "", False),
        ("", "A100", False),
        ("", "V100", True),
        ("", "", True),
        ("", "   ", True),
        ("A100", "A100", False),
        ("", "V100,", True),
        ("", ",V100", True),
        ("V100,", "", False),
        (",", "", False),
        ("a10", "", True),
        (" nvidia-a , x", "", True),
    ],
)
def test_type(*, use: str, nouse: str, expected: bool) -> None:
    """Any part of the model matches in either case; an empty member matches nothing."""
    assert type_matches("NVIDIA-A100", use=use, nouse=nouse) is expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("", True), ("mig", False), ("hami-core,mig", True), ("hami-core", True), ("hami", False)],
)
def test_mode(*, wanted: str, expected: bool) -> None:
    """A mode matches when the annotation contains it."""
    assert mode_matches("hami-core", wanted) is expected


def test_a_device_without_a_mode_is_always_taken() -> None:
    """Any text contains the empty mode."""
    assert mode_matches("", "mig")


def test_all_annotations_must_match() -> None:
    """A GPU suits a pod when type, UUID and mode do."""
    asked = {userkeys.USE_TYPE: "t4", userkeys.NOUSE_UUID: "G3", userkeys.VGPU_MODE: "hami-core"}
    tesla = registered_model("Tesla T4")
    assert suits(asked, model=tesla, uuid="G1", mode="hami-core")
    assert not suits(asked, model=tesla, uuid="G3", mode="hami-core")
    assert not suits(asked, model=tesla, uuid="G1", mode="mig")
    assert not suits(asked, model="NVIDIA A10", uuid="G1", mode="hami-core")


def test_registered_model() -> None:
    """HAMi's plugin puts `NVIDIA-` before a name that does not begin with NVIDIA."""
    assert registered_model("Tesla T4") == "NVIDIA-Tesla T4"
    assert registered_model("NVIDIA A10") == "NVIDIA A10"


def test_members() -> None:
    """A blank text is no list; an empty member is none."""
    assert members("  ") is None
    assert members(" a, ,b,") == ("a", "b")
    assert members(",") == ()


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_true(text: str) -> None:
    """Go's ParseBool takes these for true."""
    assert parsed_bool(text) is True


@pytest.mark.parametrize("text", ["yes", "on", " true", "tRUE", ""])
def test_no_bool(text: str) -> None:
    """Other words are no booleans."""
    assert parsed_bool(text) is None


def test_false() -> None:
    """Go's ParseBool takes these for false."""
    assert {parsed_bool(each) for each in ("0", "f", "F", "FALSE", "false", "False")} == {False}
