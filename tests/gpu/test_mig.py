"""Names of MIG profiles."""

import pytest

from gpu import mig
from sim import boards


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "1g.5gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", "1c.3g.20gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "1g.10gb+me"),
        ("NVIDIA RTX PRO 6000 MIG 1g.24gb+me.all", "1g.24gb+me.all"),
        ("NVIDIA RTX PRO 6000 MIG 2g.48gb-me", "2g.48gb-me"),
        ("NVIDIA RTX PRO 6000 MIG 4g.96gb+gfx", "4g.96gb+gfx"),
        ("MIG 7g.141gb", "7g.141gb"),
        ("NVIDIA A100-SXM4-40GB", None),
        ("NVIDIA A100 MIG 1g.5gb_x", None),
        ("", None),
    ],
)
def test_a_profile_is_read_from_the_name(name: str, profile: str | None) -> None:
    """The profile is what stands behind `MIG `, whole or not at all."""
    assert mig.profile_in_name(name) == profile


@pytest.mark.parametrize("board", [b for b in boards.names() if boards.board(b).mig])
def test_a_profile_follows_from_its_slices(board: str) -> None:
    """For every board known here the derived name is NVIDIA's, but for suffixes."""
    model = boards.board(board)
    assert model.mig is not None
    assert model.memory is not None
    for profile in model.mig.profiles:
        derived = mig.profile_from_slices(
            compute_slices=profile.slices,
            gpu_slices=profile.slices,
            memory_mib=profile.memory_mib,
            board_memory_mib=model.memory.total_mib,
        )
        assert derived == profile.name.partition("+")[0]


def test_a_part_of_a_gpu_instance_says_so() -> None:
    """A compute instance with fewer slices than its GPU instance names both."""
    derived = mig.profile_from_slices(
        compute_slices=1, gpu_slices=3, memory_mib=19968, board_memory_mib=40960
    )
    assert derived == "1c.3g.20gb"
