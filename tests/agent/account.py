"""A plain account of claims, kept apart from the agent's own rules.

It knows who was given what, and that nothing may be given twice. Its GPUs are the three of
`tests.agent.host`.
"""

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.agent.control_plane import Claim
from tests.agent.parts import SHARES_PER_GPU

L4_MIB, A10_MIB = 23034, 23028
TOTAL_MIB = {0: L4_MIB, 1: A10_MIB}
MIG_GPU = 2


@dataclass(frozen=True, slots=True)
class Want:
    """A device that a claim is given: a share of a GPU, a whole GPU, or a MIG device."""

    gpu: int
    memory_mib: int = 0
    """0: nobody else may hold the device."""
    cores: int = 0
    partition: int | None = None

    @property
    def dedicated(self) -> bool:
        """Tell whether it is given to one claim alone."""
        return self.memory_mib == 0

    @property
    def is_limited(self) -> bool:
        """Tell whether it is less than all of a GPU."""
        whole_cores = self.cores in {0, 100}
        return not (self.dedicated or (self.memory_mib == TOTAL_MIB[self.gpu] and whole_cores))


@dataclass(slots=True)
class Account:
    """What is known of one claim."""

    claim: Claim
    exists: bool = True
    allocated: tuple[Want, ...] = ()
    allocation: int = 0
    version: int = 0
    prepared: tuple[Want, ...] = ()
    prepared_allocation: int = -1
    prepared_version: int = -1
    prepared_boot: int = -1
    released_version: int = -1

    @property
    def has_limits(self) -> bool:
        """Tell whether containers of the prepared claim are limited."""
        sums: dict[int, tuple[int, int]] = {}
        for want in self.prepared:
            memory_mib, cores = sums.get(want.gpu, (0, 0))
            sums[want.gpu] = (memory_mib + want.memory_mib, cores + (want.cores or 100))
        all_whole = all(
            memory_mib >= TOTAL_MIB.get(gpu, 0) and cores >= 100
            for gpu, (memory_mib, cores) in sums.items()
        )
        return any(want.is_limited for want in self.prepared) and not all_whole


SHARES = st.builds(
    lambda gpu, memory, cores: Want(gpu, memory or TOTAL_MIB[gpu], cores),
    st.sampled_from([0, 1]),
    st.sampled_from([1000, 7000, 12000, 0]),
    st.sampled_from([0, 20, 50, 100]),
)
WHOLE = st.builds(Want, st.sampled_from([0, 1])) | st.builds(
    Want, st.just(MIG_GPU), partition=st.sampled_from([0, 1])
)
WANTS = st.lists(SHARES, min_size=1, max_size=3).map(tuple) | WHOLE.map(lambda want: (want,))


def fits(wants: tuple[Want, ...], others: list[Want]) -> bool:
    """Tell whether *wants* may be given beside what *others* hold."""
    for want in wants:
        beside = [
            each for each in others if (each.gpu, each.partition) == (want.gpu, want.partition)
        ]
        if beside and any(each.dedicated for each in [want, *beside]):
            return False
        if want.dedicated:
            continue
        mine = [each for each in wants if each.gpu == want.gpu]
        everyone = [*mine, *beside]
        if (
            sum(each.memory_mib for each in everyone) > TOTAL_MIB[want.gpu]
            or sum(each.cores for each in everyone) > 100
            or len(everyone) > SHARES_PER_GPU
        ):
            return False
    return True
