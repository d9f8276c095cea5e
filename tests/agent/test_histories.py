"""Any history of claims: what is prepared is what a plain account of it says.

After every step the state, the metrics, the CDI directory and the regions must agree with an
account that is kept apart from the agent's own rules.
"""

from collections.abc import Iterator

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from gpu import names
from kube.client import Client
from kube.config import load_config
from sim import nvml
from tests.agent.account import TOTAL_MIB, WANTS, Account, Want, fits
from tests.agent.control_plane import JsonObject, share, whole
from tests.agent.host import held
from tests.agent.mounts import read_only
from tests.agent.parts import SHARES_PER_GPU, Parts, Seen, look
from tests.agent.scene import Scene


class Histories(RuleBasedStateMachine):
    """Steps of the API server, of kubelet, of the node and of the agent, in any order."""

    claims = Bundle("claims")

    def __init__(self, stage: Scene, client: Client, seen: Seen) -> None:
        super().__init__()
        self.host, self.control = stage.host, stage.control
        self.client, self.seen = client, seen
        self.accounts: list[Account] = []
        self.boot = 0
        self.host_gpus = stage.host.gpus
        self.host.forget()
        self.parts = Parts(self.host, self.client, self.seen)

    def teardown(self) -> None:
        """End the last life of the agent."""
        self.control.call(self.control.server.clear_faults)
        self.parts.store.close()

    @initialize(target=claims)
    def pending(self) -> Account:
        """Create a claim that nothing was given to."""
        return self._created(())

    @rule(target=claims, wants=WANTS)
    def create(self, wants: tuple[Want, ...]) -> Account:
        """Give devices to a new claim, rightly or not, as schedulers do."""
        return self._created(wants)

    @rule(account=claims, wants=WANTS)
    def allocate_anew(self, account: Account, wants: tuple[Want, ...]) -> None:
        """Give a claim something else than it has, whatever kubelet knows."""
        if account.exists:
            self.control.allocate(account.claim, *self._results(wants))
            account.allocated = wants
            account.allocation += 1
            account.version += 1

    @rule(account=claims)
    def reserve(self, account: Account) -> None:
        """Let one more pod use a claim: a new version of the same allocation."""
        if account.exists and account.allocated:
            self.control.reserve(account.claim)
            account.version += 1

    @rule(account=claims)
    def deallocate(self, account: Account) -> None:
        """Take from a claim what it has."""
        if account.exists and account.allocated:
            self.control.deallocate(account.claim)
            account.allocated = ()
            account.version += 1

    @rule(account=claims)
    def delete(self, account: Account) -> None:
        """Delete a claim, used or not."""
        if account.exists:
            self.control.delete(account.claim)
            account.exists = False

    @rule(account=claims)
    def prepare(self, account: Account) -> None:
        """Prepare as kubelet does, once or again."""
        expected = self._expected(account)
        assert self.parts.prepare(account.claim) in expected
        if expected == {""}:
            self._took(account)

    @rule(account=claims)
    def prepare_while_the_server_fails(self, account: Account) -> None:
        """Prepare while the API server has a bad moment."""
        fail_next = self.control.server.fail_next
        self.control.call(fail_next, 1, 500, verb="get", path_part="/resourceclaims/")
        assert self.parts.prepare(account.claim) == "ClaimUnreadable"

    @rule(account=claims)
    def prepare_on_a_read_only_directory(self, account: Account) -> None:
        """Prepare while the CDI directory takes nothing: what was prepared stays."""
        expected = self._expected(account)
        with read_only(self.host.cdi):
            code = self.parts.prepare(account.claim)
        if expected != {""}:
            assert code in expected
            return
        assert code == "SpecNotWritable"
        same = account.prepared_allocation == account.allocation
        if account.prepared and same and account.prepared_boot == self.boot:
            account.prepared_version = account.version

    @rule(account=claims)
    def unprepare(self, account: Account) -> None:
        """Unprepare as kubelet does, also what was never prepared."""
        assert self.parts.unprepare(account.claim) == ""
        self._gave_back(account)

    @rule(account=claims)
    def unprepare_on_a_read_only_directory(self, account: Account) -> None:
        """Unprepare while nothing can be removed: it is not forgotten."""
        with read_only(self.host.cdi):
            code = self.parts.unprepare(account.claim)
        assert code == ("SpecNotWritable" if account.prepared else "")

    @rule()
    def sweep(self) -> None:
        """Look for claims that are gone and that kubelet never released."""
        self.parts.sweep.run()
        for account in self.accounts:
            if not (account.exists and account.allocated):
                self._gave_back(account)

    @rule()
    def restart(self) -> None:
        """End the agent and start it."""
        self.parts.store.close()
        self.parts = Parts(self.host, self.client, self.seen)
        self.parts.preparer.restore()

    @rule()
    def reboot(self) -> None:
        """Lose what a node loses, and start the agent."""
        self.parts.store.close()
        self.host.reboot()
        self.boot += 1
        self.parts = Parts(self.host, self.client, self.seen)
        self.parts.preparer.restore()

    @rule(account=claims)
    def lose_a_spec(self, account: Account) -> None:
        """Clean up in the CDI directory as somebody might, and let the agent look after it."""
        self.host.spec(account.claim.uid).unlink(missing_ok=True)
        self.host.spec("nobody").write_text("{}", encoding="utf-8")
        self.parts.preparer.restore()

    @invariant()
    def state_and_files_agree_with_the_account(self) -> None:
        """Check that who holds something has a spec, and a region if limited, and nobody else."""
        prepared = {each.claim.uid: each for each in self.accounts if each.prepared}
        records = self.parts.store.current()
        assert {uid: len(record.devices) for uid, record in records.items()} == {
            uid: len(account.prepared) for uid, account in prepared.items()
        }
        limited = {uid for uid, account in prepared.items() if account.has_limits}
        expected = held(*limited, whole=frozenset(prepared.keys() - limited))
        assert self.host.holdings(prepared) == expected
        renderer = self.seen.state.current().renderer
        for uid, record in records.items():
            assert self.parts.specs.read(uid) == renderer.render(record)

    @invariant()
    def usage_is_the_sum_of_what_was_given(self) -> None:
        """Check that the metrics add up to the account, which is within every GPU."""
        sums: dict[str, tuple[int, int, int]] = {}
        for want in self._wants_held():
            gpu = self.host_gpus[want.gpu]
            uuid = gpu.uuid if want.partition is None else gpu.mig[want.partition].uuid
            memory_mib, cores, shares = sums.get(uuid, (0, 0, 0))
            more_mib = want.memory_mib or self._whole_mib(want)
            more_cores = 100 if want.dedicated else want.cores
            sums[uuid] = (memory_mib + more_mib, cores + more_cores, shares + 1)
        assert self.parts.granted() == sums
        for index, total_mib in TOTAL_MIB.items():
            memory_mib, cores, shares = sums.get(self.host_gpus[index].uuid, (0, 0, 0))
            assert memory_mib <= total_mib
            assert cores <= 100
            assert shares <= SHARES_PER_GPU

    def _created(self, wants: tuple[Want, ...]) -> Account:
        # One class for all, because any claim may be given anything later.
        claim = self.control.claim(*self._results(wants), device_class=names.CLASS_WHOLE)
        account = Account(claim, allocated=wants)
        self.accounts.append(account)
        return account

    def _results(self, wants: tuple[Want, ...]) -> list[JsonObject]:
        return [self._result(want) for want in wants]

    def _result(self, want: Want) -> JsonObject:
        if want.partition is not None:
            return whole(self.host.partition(want.gpu, want.partition))
        device = self.host.device(want.gpu)
        if want.dedicated:
            return whole(device)
        return share(device, f"{want.memory_mib}Mi", str(want.cores))

    def _whole_mib(self, want: Want) -> int:
        gpu = self.host_gpus[want.gpu]
        if want.partition is None:
            return gpu.memory_mib or 0
        return gpu.mig[want.partition].profile.memory_mib

    def _expected(self, account: Account) -> set[str]:
        """Return the codes that a prepare may end with; the empty one stands for success."""
        if not account.exists:
            return {"ClaimNotFound"}
        if not account.allocated:
            return {"ClaimNotAllocated"}
        if account.released_version == account.version:
            return {"ClaimWasReleased"}
        if account.prepared and account.prepared_allocation == account.allocation:
            return {""}
        if fits(account.allocated, list(self._wants_held(but=account))):
            return {""}
        return {"CapacityExceeded", "DeviceInUse"}

    def _wants_held(self, *, but: Account | None = None) -> Iterator[Want]:
        for account in self.accounts:
            if account is not but:
                yield from account.prepared

    def _took(self, account: Account) -> None:
        account.prepared = account.allocated
        account.prepared_allocation = account.allocation
        account.prepared_version = account.version
        account.prepared_boot = self.boot

    def _gave_back(self, account: Account) -> None:
        if account.prepared:
            account.prepared = ()
            account.released_version = account.prepared_version


@pytest.fixture
def seen(stage: Scene) -> Iterator[Seen]:
    """Read the GPUs of the node once, through a library that stands in for NVML."""
    nvml.install(stage.host.gpus_file)
    yield look(stage.host)
    nvml.uninstall()


def test_any_history_keeps_the_account(stage: Scene, seen: Seen) -> None:
    """However claims come and go, usage is the sum over live claims and within every GPU."""
    client = Client(load_config(str(stage.kubeconfig)), user_agent="gpuslice-test")

    class Here(Histories):
        def __init__(self) -> None:
            super().__init__(stage, client, seen)

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            # Shrinking takes minutes, and thirty steps can be read.
            phases=[Phase.generate],
        ),
    )
    client.close()
