"""Tests of names."""

import pytest

from cdi.names import check_claim_uid, device_name, is_device_name, is_kind, qualified_name
from gpu.refusal import RefusedError
from tests.cdi.trees import CLAIM


@pytest.mark.parametrize("uid", ["", "../x", "a/b", "a.b", "-a", "a\n", "é", "a" * 129, "a b"])
def test_odd_claim_uids_are_refused(uid: str) -> None:
    """A UID that could leave the directory, or hide in it, never becomes a file name."""
    with pytest.raises(RefusedError) as caught:
        check_claim_uid(uid)
    assert caught.value.refusal.code == "ClaimUidInvalid"
    assert caught.value.refusal.value == uid


def test_device_names_keep_shares_apart() -> None:
    """A share's name carries its ID, so two shares of one GPU are two devices."""
    assert device_name(CLAIM, "gpu-a") == f"{CLAIM}-gpu-a"
    assert device_name(CLAIM, "gpu-a", "s1") == f"{CLAIM}-gpu-a-s1"


def test_qualified_names_are_of_our_kind() -> None:
    """The runtime is handed our kind and the device, and nothing that is no such name."""
    assert qualified_name("a-gpu-b") == "k8s.gpuslice.io/claim=a-gpu-b"
    for bad in ("a/b", "a=b", "", "-a", "a\n"):
        with pytest.raises(RefusedError):
            qualified_name(bad)


def test_library_names() -> None:
    """Kinds and device names follow the library's grammar."""
    assert is_kind("a/b")
    assert is_device_name("0")
    assert not is_kind("a/")
    assert not is_kind("vendor.com/dev\n")
    assert not is_device_name("a\n")
