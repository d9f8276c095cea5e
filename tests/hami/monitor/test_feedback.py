"""Who waits, and whose core limit is lifted: the rules, and what follows from them for ever."""

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hami.monitor.feedback import BLOCKED, Order, Task, decide

GPUS = ("GPU-a", "GPU-b")


def task(priority: int = 1, recent_kernel: int = 2, **changes: object) -> Task:
    """Return a limited task that has just launched on one GPU."""
    found = Task(
        devices=frozenset({"GPU-a"}),
        priority=priority,
        recent_kernel=recent_kernel,
        limited=True,
        alive=True,
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def orders(*tasks: Task) -> list[Order]:
    """Return what is decided for each."""
    found = decide(dict(enumerate(tasks)))
    return [found[number] for number in range(len(tasks))]


def test_the_lower_priority_waits_while_the_higher_is_active() -> None:
    """It is told so, its limit holds for when it goes on, and the higher has the GPU to itself."""
    high, low = orders(task(0), task(1))
    assert (high.recent_kernel, high.utilization_switch, high.should_wait) == (1, 0, False)
    assert (low.recent_kernel, low.utilization_switch, low.should_wait) == (BLOCKED, 1, True)


def test_it_goes_on_when_the_higher_is_not_active_any_more() -> None:
    """One launch lasts for one look."""
    high, low = orders(task(0, recent_kernel=1), task(1, recent_kernel=BLOCKED))
    assert (high.recent_kernel, low.recent_kernel) == (0, 0)
    assert not low.should_wait


def test_equals_share_with_their_limits_and_one_alone_without() -> None:
    """Two of one priority on a GPU are limited; on two GPUs neither is."""
    assert [each.utilization_switch for each in orders(task(), task())] == [1, 1]
    apart = task(devices=frozenset({"GPU-b"}))
    assert [each.utilization_switch for each in orders(task(), apart)] == [0, 0]
    assert [each.utilization_switch for each in orders(task())] == [0]


def test_a_launch_counts_by_its_time_too() -> None:
    """A library that does not limit does not note launches, but their time."""
    unnoted = task(0, recent_kernel=0, launched_lately=True)
    assert orders(unnoted, task(1))[1].should_wait
    assert not orders(replace(unnoted, launched_lately=False), task(1))[1].should_wait


def test_who_waits_is_not_active() -> None:
    """A launch that waits holds nobody of still lower priority back."""
    waiting = task(1, recent_kernel=BLOCKED, launched_lately=True)
    assert not orders(waiting, task(2))[1].should_wait


def test_who_cannot_be_held_back_is_not() -> None:
    """Without a core limit nothing is stored that would hold it back, and it is known."""
    _, low = orders(task(0), task(1, limited=False))
    assert (low.recent_kernel, low.should_wait) == (1, True)


def test_the_dead_hold_nobody_back() -> None:
    """What a killed process has left in its region is no activity, and does not wait."""
    dead, low = orders(task(0, alive=False), task(1))
    assert not low.should_wait
    assert dead.recent_kernel == 1
    assert orders(task(0), task(1, recent_kernel=BLOCKED, alive=False))[1].recent_kernel == 0


def test_a_container_gains_nothing_by_large_numbers() -> None:
    """A region is the container's to write: it is active for no longer than by launches."""
    found = orders(task(0, recent_kernel=2**31 - 1), task(1))
    assert found[0].recent_kernel == 1
    assert orders(task(-5), task(0))[1].should_wait is False


tasks = st.builds(
    Task,
    devices=st.sets(st.sampled_from(GPUS)).map(frozenset),
    priority=st.integers(min_value=-2, max_value=4),
    recent_kernel=st.one_of(
        st.integers(min_value=-3, max_value=3), st.sampled_from([-(2**31), 2**31 - 1])
    ),
    limited=st.booleans(),
    alive=st.booleans(),
    launched_lately=st.booleans(),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(tasks, max_size=6))
def test_what_holds_for_every_node(found: list[Task]) -> None:
    """Who waits has a reason and can be held back; the highest never waits; all can be stored."""
    decided = orders(*found)
    for number, (each, order) in enumerate(zip(found, decided, strict=True)):
        rivals = [other for place, other in enumerate(found) if place != number]
        above = [
            other
            for other in rivals
            if other.devices & each.devices
            and 0 <= other.priority < each.priority
            and other.alive
            and (
                other.recent_kernel > 1 or (other.recent_kernel in {0, 1} and other.launched_lately)
            )
        ]
        assert order.should_wait == bool(above)
        waits = bool(above) and each.limited and each.alive
        assert (order.recent_kernel == BLOCKED) == waits
        assert order.recent_kernel in {-1, 0, 1}
        assert order.utilization_switch in {0, 1}
        if order.should_wait:
            assert order.utilization_switch == 1


@settings(max_examples=200, deadline=None)
@given(st.lists(tasks, max_size=6))
def test_all_go_on_when_nobody_launches(found: list[Task]) -> None:
    """Two looks after the last launch nobody waits, and everybody's limit is lifted."""
    now = [replace(each, launched_lately=False) for each in found]
    for _ in range(2):
        now = [
            replace(each, recent_kernel=order.recent_kernel)
            for each, order in zip(now, orders(*now), strict=True)
        ]
    for order in orders(*now):
        assert not order.should_wait
        assert (order.recent_kernel, order.utilization_switch) == (0, 0)


@dataclass(slots=True)
class Container:
    """A container as its library behaves."""

    gpu: str
    priority: int
    limited: bool
    wants: bool = False
    alive: bool = True
    recent_kernel: int = 2
    utilization_switch: int = 1
    launched: bool = False
    """Since the last look."""

    def launch(self) -> bool:
        """Launch as the newer library does; tell whether that went through."""
        if self.limited and self.utilization_switch:
            if self.recent_kernel < 0:
                return False
            self.recent_kernel = 2
        self.launched = True
        return True

    def task(self) -> Task:
        """Return what the monitor reads."""
        return Task(
            devices=frozenset({self.gpu}),
            priority=self.priority,
            recent_kernel=self.recent_kernel,
            limited=self.limited,
            alive=self.alive,
            launched_lately=self.launched,
        )


class Libraries(RuleBasedStateMachine):
    """Containers that launch, stop and die, while a monitor looks now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.containers: list[Container] = []

    @initialize(
        made=st.lists(
            st.builds(
                Container,
                gpu=st.sampled_from(GPUS),
                priority=st.integers(min_value=0, max_value=2),
                limited=st.booleans(),
            ),
            min_size=1,
            max_size=5,
        )
    )
    def begin(self, made: list[Container]) -> None:
        """Start some containers."""
        self.containers = made

    @rule(number=st.integers(min_value=0, max_value=4), wants=st.booleans())
    def change_mind(self, number: int, *, wants: bool) -> None:
        """Have a container begin or end its work."""
        self.containers[number % len(self.containers)].wants = wants

    @rule(number=st.integers(min_value=0, max_value=4))
    def kill(self, number: int) -> None:
        """Kill the processes of a container; its region stays."""
        self.containers[number % len(self.containers)].alive = False

    @rule(number=st.integers(min_value=0, max_value=4))
    def start_again(self, number: int) -> None:
        """Start a container in the region that is there."""
        self.containers[number % len(self.containers)].alive = True

    @rule()
    def look(self) -> None:
        """Have everybody launch who wants to, and the monitor look."""
        for each in self.containers:
            if each.wants and each.alive:
                each.launch()
        for each, order in zip(
            self.containers, orders(*(each.task() for each in self.containers)), strict=True
        ):
            each.recent_kernel = order.recent_kernel
            each.utilization_switch = order.utilization_switch
            each.launched = False

    @invariant()
    def the_highest_work(self) -> None:
        """Nobody waits on a GPU on which no living container is of higher priority."""
        for each in self.containers:
            if each.recent_kernel < 0:
                assert each.limited
                assert any(
                    other.gpu == each.gpu and other.priority < each.priority
                    for other in self.containers
                )

    def teardown(self) -> None:
        """Whoever works and is of the highest priority on its GPU works after two looks."""
        self.look()
        self.look()
        for each in self.containers:
            rivals = [
                other
                for other in self.containers
                if other.gpu == each.gpu and other.alive and other.wants
            ]
            if each in rivals and each.priority == min(other.priority for other in rivals):
                assert each.launch()


TestLibraries = Libraries.TestCase
TestLibraries.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
