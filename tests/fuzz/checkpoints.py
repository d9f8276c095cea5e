"""The durable record, damaged as disks, people and other versions damage files.

Two targets. One turns bits, cuts and moves bytes in the files of a real history: what is loaded
then has to be the state after one of the history's steps, or an error; never other numbers, and
never a state with a hole in it. The other writes records with a right checksum and a wrong
content: what is loaded has to say what the records say.

What no checksum tells is left out: whole lines in another order, or the end of a journal gone at
a line's end together with the snapshot after it.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from dra.journal import DamagedError, encode_line
from dra.record import PREPARED_CLAIM, PreparedClaim
from dra.state import StateError, StateStore
from tests.dra.builders import BOOT_ID, a_gpu, a_held, a_limited_record, a_mig_gpu, a_record
from tests.fuzz.mutation import spoiled, spoiled_bytes
from tests.fuzz.running import expect

State = dict[str, PreparedClaim]
Open = Callable[[Path], StateStore]

# Files in memory: the state is synced at every start.
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a directory of its own is made in it


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The files that a history left, and the claims after each of its steps."""

    files: Mapping[str, bytes]
    states: tuple[State, ...]
    """From the newest snapshot on: what was before it is never the state again."""


def open_state(directory: Path) -> StateStore:
    """Open the state in *directory* as a process does."""
    store = StateStore(directory, boot_id=BOOT_ID, lock_wait_s=5.0)
    try:
        store.open()
    except (DamagedError, StateError):
        store.close()
        raise
    if store.rebuild_mark() is not None:
        # What cannot be read is not refused: it is set aside, and found again elsewhere.
        store.close()
        raise DamagedError(directory, "is rebuilt")
    return store


@contextmanager
def directory_in_memory() -> Iterator[Path]:
    """Make a directory whose files cost no disk."""
    where = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="gpuslice-fuzz-", dir=where) as made:
        # Beside which a damaged state is set aside.
        state = Path(made) / "state"
        state.mkdir()
        yield state


@cache
def histories() -> tuple[History, ...]:
    """Return histories with and without a generation before the newest."""
    return tuple(_history(*steps) for steps in ((3, 0), (2, 3), (0, 4), (4, 0), (5, 5)))


def _history(before: int, after: int) -> History:
    """Make *before* steps, start a new generation, and make *after* more."""
    claims = [a_record(1), a_limited_record(2), a_record(3, a_held(a_mig_gpu().mig_devices[0]))]
    claims.append(a_record(4, a_held(a_gpu(1), memory_mib=7, shares=3), pod_uids=("p",)))
    states: list[State] = [{}]
    with directory_in_memory() as directory:
        store = open_state(directory)
        for number in range(before + after):
            if number == before:
                store.close()
                store = open_state(directory)
            _step(store, claims[number % len(claims)], number)
            states.append(dict(store.claims()))
        store.close()
        kept = {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "lock"}
    return History(files=kept, states=tuple(states[before if after else 0 :]))


def _step(store: StateStore, claim: PreparedClaim, number: int) -> None:
    with store.transaction() as transaction:
        if number in {2, 6}:
            transaction.release(a_record(1).uid, now_s=1000 + number)
        elif number == 8:
            transaction.withdraw(claim)
        else:
            transaction.put(claim)


@dataclass(slots=True)
class _Shelf:
    """A directory that holds the files of one input at a time."""

    _made: Any = None
    path: Path = field(init=False, default_factory=Path)

    def put(self, files: Mapping[str, bytes]) -> Path:
        """Leave exactly *files* in the directory, and return it."""
        if self._made is None:
            where = _MEMORY if _MEMORY.is_dir() else None
            self._made = tempfile.TemporaryDirectory(prefix="gpuslice-fuzz-", dir=where)
            # Beside which a damaged state is set aside.
            self.path = Path(self._made.name) / "state"
            self.path.mkdir()
        for path in self.path.iterdir():
            path.unlink()
        for name, content in files.items():
            (self.path / name).write_bytes(content)
        return self.path

    def close(self) -> None:
        """Remove the directory."""
        if self._made is not None:
            self._made.cleanup()
            self._made = None


def _loaded(open_one: Open, directory: Path) -> State | None:
    """Return what a process finds in *directory*, `None` when it says that it is damaged."""
    try:
        store = open_one(directory)
    except DamagedError:
        return None
    try:
        return dict(store.current())
    finally:
        store.close()


@dataclass(slots=True)
class Checkpoints:
    """Histories with damaged files."""

    open_one: Open = open_state
    name: str = "checkpoint-bytes"
    weight: int = 4
    _shelf: _Shelf = field(default_factory=_Shelf)

    def make(self, rng: Random) -> dict[str, Any]:
        """Return files, and the number of the history that they were."""
        number = rng.randrange(len(histories()))
        files = dict(histories()[number].files)
        for _ in range(rng.choice((1, 1, 1, 2))):
            name = rng.choice(sorted(files))
            donor = files[rng.choice(sorted(files))]
            files[name] = _flipped(rng, files[name], donor)
        if rng.random() < 0.3:
            # One loss by itself: no checksum says what stood in a file that is gone.
            files = dict(histories()[number].files)
            name = rng.choice(sorted(files))
            files[name] = files[name][: rng.randint(0, len(files[name]))]
            if rng.random() < 0.2:
                del files[name]
        return {"history": number, "files": files}

    def check(self, sample: dict[str, Any]) -> bool:
        """Load a state of the history, or say that it is damaged; the second time the same."""
        states = histories()[sample["history"]].states
        directory = self._shelf.put(sample["files"])
        found = _loaded(self.open_one, directory)
        if found is None:
            return False
        expect(found in states, f"a state that never was: {sorted(found)}")
        expect(_loaded(self.open_one, directory) == found, "another answer the second time")
        return True

    def close(self) -> None:
        """Remove the files."""
        self._shelf.close()


def _flipped(rng: Random, data: bytes, donor: bytes) -> bytes:
    if rng.random() < 0.5 and data:
        place, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
        return data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]
    # A piece of another file, or of nothing, in the place of as many bytes.
    spoilt = spoiled_bytes(rng, data, donor=donor, most=1)
    return spoilt.ljust(len(data), b"\x00")[: len(data)]


_NUMBERS: Final = ("memory_mib", "cores_percent", "shares")


def _records() -> list[Any]:
    claims = [a_record(1), a_limited_record(2), a_record(3, a_held(a_mig_gpu().mig_devices[0]))]
    entries = [PREPARED_CLAIM.dump_python(claim, mode="json") for claim in claims]
    tombs = [{"uid": claim.uid, "at": 1000, "resourceVersion": "7"} for claim in claims]
    return [
        *({"op": "prepared", "claim": entry} for entry in entries),
        *({"op": "released", **tomb} for tomb in tombs),
        {"op": "withdrawn", "uid": claims[0].uid},
        {"op": "forgotten", "uid": claims[1].uid},
    ]


@dataclass(slots=True)
class Records:
    """Files whose checksums are right and whose content is odd."""

    open_one: Open = open_state
    name: str = "checkpoint-records"
    weight: int = 5
    _shelf: _Shelf = field(default_factory=_Shelf)

    def make(self, rng: Random) -> dict[str, Any]:
        """Return a snapshot and the records after it."""
        records = _records()
        claims = [each["claim"] for each in records[:3]]
        tombs = [dict(each) for each in records[3:6]]
        for tomb in tombs:
            del tomb["op"]
        snapshot = {"version": 1, "bootId": BOOT_ID, "claims": claims, "released": tombs}
        document = {"snapshot": snapshot, "journal": rng.choices(records, k=rng.randint(0, 4))}
        found: Any = spoiled(rng, document, donor=document)
        if isinstance(found, dict) and isinstance(found.get("journal"), list):
            return found
        return document | {"snapshot": found}

    def check(self, sample: dict[str, Any]) -> bool:
        """Load what the records say to the letter, or say that they are damaged."""
        try:
            snapshot = encode_line(sample.get("snapshot", {}))
            journal = b"".join(encode_line(each) for each in sample.get("journal", ()))
        except RecursionError:
            return False
        files = {"snapshot.00000001": snapshot, "journal.00000001": journal}
        directory = self._shelf.put(files)
        found = _loaded(self.open_one, directory)
        if found is None:
            return False
        expect_said(found, sample)
        expect(_loaded(self.open_one, directory) == found, "another answer the second time")
        return True

    def close(self) -> None:
        """Remove the files."""
        self._shelf.close()


def expect_said(found: State, sample: Mapping[str, Any]) -> None:
    """Hold the claims *found* against the last word of the records on each."""
    wanted: dict[Any, Any] = {}
    for op, entry in _words(sample):
        if op == "prepared":
            wanted[entry["uid"]] = entry
        elif op in {"released", "withdrawn"}:
            wanted.pop(entry["uid"], None)
    expect(found.keys() == wanted.keys(), f"other claims: {sorted(found)}")
    for uid, claim in found.items():
        _expect_numbers(claim.devices, wanted[uid]["devices"])
        _expect_numbers(claim.limits, wanted[uid].get("limits", ()))


def _words(sample: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    snapshot = sample["snapshot"]
    yield from (("prepared", entry) for entry in snapshot.get("claims", ()))
    yield from (("released", entry) for entry in snapshot.get("released", ()))
    for record in sample["journal"]:
        yield record["op"], record["claim"] if record["op"] == "prepared" else record


def _expect_numbers(found: Iterable[Any], said: Iterable[Mapping[str, Any]]) -> None:
    for part, entry in zip(found, said, strict=True):
        for name in _NUMBERS:
            value = getattr(part, name, None)
            wanted = entry.get(name) if hasattr(part, name) else None
            expect(value == wanted, f"another number: {name} is {value} and not {wanted}")
            expect(type(value) is type(wanted), f"another type: {name} was {wanted!r}")
            expect(value is None or value >= 0, f"a negative number: {name} {value}")
