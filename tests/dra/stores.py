"""What the tests of the state do with it again and again."""

from pathlib import Path

from dra.record import PreparedClaim
from dra.state import StateStore
from tests.dra.builders import BOOT_ID


def opened(directory: Path, *, boot_id: str = BOOT_ID, lock_wait_s: float = 5.0) -> StateStore:
    """Open the state in *directory* as a process does."""
    store = StateStore(directory, boot_id=boot_id, lock_wait_s=lock_wait_s)
    store.open()
    return store


def put(store: StateStore, *claims: PreparedClaim) -> None:
    """Record *claims*, each in a transaction of its own."""
    for claim in claims:
        with store.transaction() as transaction:
            transaction.put(claim)


def release(store: StateStore, claim: PreparedClaim, *, now_s: int = 1000) -> None:
    """Record that *claim* is unprepared."""
    with store.transaction() as transaction:
        transaction.release(claim.uid, now_s=now_s)


def journal_of(directory: Path) -> Path:
    """Return the newest journal."""
    return max(directory.glob("journal.*"))
