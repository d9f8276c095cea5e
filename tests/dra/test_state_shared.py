"""The memory of prepared claims that two processes share."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dra.journal import encode_line
from tests.dra.builders import a_record
from tests.dra.stores import journal_of, opened, put, release

if TYPE_CHECKING:
    from dra.record import PreparedClaim

_OTHER_PROCESS = """
import sys
from pathlib import Path
from dra.state import StateStore
from tests.dra.builders import a_record

store = StateStore(Path(sys.argv[1]), boot_id="boot")
store.open()
sys.stdin.readline()
for number in range(100, 150):
    with store.transaction() as transaction:
        transaction.put(a_record(number))
print(len(store.current()), flush=True)
"""


def test_another_process_takes_part(tmp_path: Path) -> None:
    """Two real processes write at the same time, and each ends up with what both wrote."""
    store = opened(tmp_path)
    put(store, a_record(0))
    arguments = [sys.executable, "-c", _OTHER_PROCESS, str(tmp_path)]
    with subprocess.Popen(  # noqa: S603
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
        put(store, *(a_record(number) for number in range(1, 50)))
        output, _ = other.communicate(timeout=60)
    assert other.returncode == 0
    assert int(output) >= 51
    assert store.current().keys() == {
        a_record(number).uid for number in [*range(50), *range(100, 150)]
    }
    store.close()


def test_many_restarts_of_another_process_are_noticed(tmp_path: Path) -> None:
    """Each start begins a new generation; a process that was idle meanwhile finds the newest."""
    store = opened(tmp_path)
    put(store, a_record(1))
    for number in range(2, 6):
        other = opened(tmp_path)
        put(other, a_record(number))
        other.close()
    put(store, a_record(6))
    store.close()
    again = opened(tmp_path)
    assert again.claims().keys() == {a_record(number).uid for number in range(1, 7)}
    again.close()


class StateMachine(RuleBasedStateMachine):
    """Any order of changes and restarts of two processes, against a dict."""

    numbers = st.integers(0, 5)

    @initialize()
    def begin(self) -> None:
        """Start both processes on an empty directory."""
        self.directory = TemporaryDirectory()
        path = Path(self.directory.name)
        self.stores = [opened(path), opened(path)]
        self.model: dict[str, PreparedClaim] = {}
        self.buried: set[str] = set()
        self.version = 0

    @rule(number=numbers, which=st.sampled_from([0, 1]))
    def put(self, number: int, which: int) -> None:
        """Prepare a claim in one process."""
        self.version += 1
        claim = a_record(number, resource_version=str(self.version))
        put(self.stores[which], claim)
        self.model[claim.uid] = claim
        self.buried.discard(claim.uid)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), which=st.sampled_from([0, 1]))
    def release(self, data: st.DataObject, which: int) -> None:
        """Unprepare one in either."""
        uid = data.draw(st.sampled_from(sorted(self.model)))
        release(self.stores[which], self.model.pop(uid))
        self.buried.add(uid)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), which=st.sampled_from([0, 1]))
    def withdraw(self, data: st.DataObject, which: int) -> None:
        """Take one back in either."""
        uid = data.draw(st.sampled_from(sorted(self.model)))
        with self.stores[which].transaction() as transaction:
            transaction.withdraw(self.model.pop(uid))

    @rule(which=st.sampled_from([0, 1]), times=st.integers(1, 3))
    def restart(self, which: int, times: int) -> None:
        """Restart one process, perhaps again and again as one that crashes."""
        for _ in range(times):
            self.stores[which].close()
            self.stores[which] = opened(Path(self.directory.name))

    @rule(size=st.integers(1, 30))
    def cut(self, size: int) -> None:
        """Leave the beginning of a line behind, as a killed process does."""
        line = encode_line({"op": "withdrawn", "uid": "u"})
        with journal_of(Path(self.directory.name)).open("ab") as journal:
            journal.write(line[:size])

    @invariant()
    def agree(self) -> None:
        """Both processes know what the model knows."""
        for store in self.stores:
            assert dict(store.current()) == self.model
            with store.transaction() as transaction:
                assert {uid for uid in self.buried if transaction.released(uid)} == self.buried

    def teardown(self) -> None:
        """End both processes."""
        for store in self.stores:
            store.close()
        self.directory.cleanup()


def test_any_order_of_changes_and_restarts_gives_the_same_state() -> None:
    """Two processes over one directory behave as one dict."""
    run_state_machine_as_test(
        StateMachine, settings=settings(max_examples=10, stateful_step_count=20)
    )
