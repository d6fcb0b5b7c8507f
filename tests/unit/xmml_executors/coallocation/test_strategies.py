"""What every strategy of co-allocation promises, whatever the sites do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wan.soak import LONG
from xmml_executors.coallocation import (
    HeterogeneousJob,
    Member,
    Phase,
    Rendezvous,
    RendezvousPolicy,
    Reservation,
    Strategy,
)
from xmml_executors.coallocation.actions import (
    Action,
    Cancel,
    Estimate,
    Go,
    Hold,
    Reserve,
    Submit,
    SubmitTogether,
    Unreserve,
)
from xmml_executors.coallocation.events import Ended, Estimated, Event, NotReserved, Ready, Rejected, Reserved

EXAMPLES = 2000 if LONG else 30

Make = Callable[[Sequence[Member]], Strategy]

STRATEGIES: dict[str, tuple[Make, bool]] = {
    "rendezvous": (lambda members: Rendezvous(members), False),
    "rendezvous without estimates": (lambda members: Rendezvous(members, RendezvousPolicy(use_estimates=False)), False),
    "reservation": (lambda members: Reservation(members), False),
    "heterogeneous job": (lambda members: HeterogeneousJob(members), True),
}


@dataclass
class Sites:
    """The sites as a strategy knows them, without any promise about what they do: jobs in queues, jobs that run,
    reservations, and what was done so far."""

    strategy: Strategy
    members: Sequence[Member]
    now: float = 0.0
    queued: set[tuple[str, int]] = field(default_factory=set)
    running: dict[tuple[str, int], float] = field(default_factory=dict)
    reserved: dict[str, str] = field(default_factory=dict)
    asked: list[Event] = field(default_factory=list)
    went: Go | None = None
    wasted: dict[str, float] = field(default_factory=dict)

    def do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case Submit(member, attempt):
                assert not any(name == member for name, _ in [*self.queued, *self.running]), "one placeholder at a time"
                self.queued.add((member, attempt))
            case SubmitTogether(members, attempt):
                self.queued |= {(member, attempt) for member in members}
            case Cancel(member, attempt):
                job = (member, attempt)
                assert job in self.queued or job in self.running, "only what exists is cancelled"
                self.queued.discard(job)
                if job in self.running:
                    self.wasted[member] = self.wasted.get(member, 0.0) + self.now - self.running.pop(job)
            case Go(attempts):
                assert self.went is None, "go is said once"
                assert self.running.keys() == set(attempts.items()), "go is said when everybody is ready"
                assert set(attempts) == {member.name for member in self.members}
                self.went = action
            case Hold(member, attempt, until):
                assert (member, attempt) in self.running
                assert until >= self.now
            case Reserve(member):
                self.asked.append(Reserved(member, f"r {member} {self.now}"))
            case Unreserve(member, name):
                assert self.reserved.pop(member) == name
            case Estimate():
                pass

    def tell(self, event: Event) -> None:
        self.do(self.strategy.on(event, self.now))


def group(sizes: Sequence[int], one_site: bool) -> list[Member]:
    return [Member(f"m{at}", "one" if one_site else f"site{at}", cores, 3600.0) for at, cores in enumerate(sizes)]


#: What happens next: the kind, whom it concerns, and how much time passes before.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("start", "start", "end", "estimate", "answer", "refuse", "reject", "late", "wait", "due")),
        st.integers(0, 7),
        st.floats(0, 2000),
    ),
    max_size=60,
)


def let_happen(sites: Sites, kind: str, which: int, pause: float) -> None:
    """Let one thing happen at the sites, as far as it can."""
    deadline = sites.strategy.deadline
    if kind == "due" and deadline is not None:
        pause = max(0.0, deadline - sites.now)
    if deadline is not None and sites.now + pause >= deadline:
        sites.now = max(sites.now, deadline)
        sites.do(sites.strategy.on_time(sites.now))
        return
    sites.now += pause
    name = sites.members[which % len(sites.members)].name
    queued, running = sorted(sites.queued), sorted(sites.running)
    if kind == "start" and queued:
        job = queued[which % len(queued)]
        sites.queued.discard(job)
        sites.running[job] = sites.now
        sites.tell(Ready(*job))
    elif kind == "end" and [*queued, *running]:
        job = [*queued, *running][which % (len(queued) + len(running))]
        sites.queued.discard(job)
        sites.running.pop(job, None)
        sites.tell(Ended(*job, "killed"))
    elif kind == "estimate":
        sites.tell(Estimated(name, None if which == 0 else sites.now + 500.0 * which))
    elif kind in ("answer", "refuse") and sites.asked:
        asked = sites.asked.pop(0)
        assert isinstance(asked, Reserved)
        if kind == "answer":
            sites.reserved[asked.member] = asked.name
            sites.tell(asked)
        else:
            sites.tell(NotReserved(asked.member, "no room", sites.now + 100.0 * which, for_good=which == 7))
    elif kind == "reject" and which == 0 and queued:
        sites.queued.discard(queued[0])
        sites.tell(Rejected(*queued[0], "unknown account"))
    elif kind == "late":
        sites.tell(Ready(name, 99))


def begun(strategy: Strategy, members: Sequence[Member]) -> Sites:
    sites = Sites(strategy, members)
    sites.do(strategy.begin(0.0))
    return sites


@pytest.mark.parametrize("name", STRATEGIES)
@given(sizes=st.lists(st.integers(1, 64), min_size=1, max_size=4), steps=STEPS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_go_is_said_only_when_all_are_ready_and_a_failure_leaves_nothing(
    name: str, sizes: list[int], steps: list[tuple[str, int, float]]
) -> None:
    make, one_site = STRATEGIES[name]
    members = group(sizes, one_site)
    sites = begun(make(members), members)
    for step in steps:
        let_happen(sites, *step)
        assert (sites.went is not None) or sites.strategy.phase is not Phase.GONE
        if sites.strategy.phase is Phase.FAILED:
            assert sites.strategy.reason
            assert not sites.queued
            assert not sites.running
            while sites.asked:
                let_happen(sites, "answer", 0, 0.0)
            assert not sites.reserved
            assert sites.strategy.deadline is None


@pytest.mark.parametrize("name", STRATEGIES)
@given(sizes=st.lists(st.integers(1, 64), min_size=2, max_size=4), steps=STEPS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_giving_up_at_any_moment_releases_every_site(
    name: str, sizes: list[int], steps: list[tuple[str, int, float]]
) -> None:
    make, one_site = STRATEGIES[name]
    members = group(sizes, one_site)
    sites = begun(make(members), members)
    for step in steps:
        let_happen(sites, *step)
    sites.do(sites.strategy.give_up("interrupted", sites.now))
    while sites.asked:
        let_happen(sites, "answer", 0, 0.0)
    assert not sites.queued
    assert not sites.running
    assert not sites.reserved


@given(
    sizes=st.lists(st.integers(1, 64), min_size=2, max_size=4),
    steps=STEPS,
    budget=st.floats(0, 0.2),
    growth=st.floats(0, 0.01),
    estimates=st.booleans(),
)
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_rendezvous_wastes_no_more_than_its_budget_and_the_meetings(
    sizes: list[int], steps: list[tuple[str, int, float]], budget: float, growth: float, estimates: bool
) -> None:
    members = group(sizes, one_site=False)
    manners = RendezvousPolicy(budget=budget, budget_growth=growth, use_estimates=estimates, losses=10**6)
    sites = Sites(Rendezvous(members, manners), members)
    sites.do(sites.strategy.begin(0.0))
    for step in steps:
        if step[0] != "end":
            let_happen(sites, *step)
    cores = {member.name: member.cores for member in members}
    wasted = sum(cores[name] * seconds for name, seconds in sites.wasted.items())
    run = sum(member.cores * member.run_s for member in members)
    attempts = sum(attempt * cores[name] for name, attempt in [*sites.queued, *sites.running])
    attempts += sum(60 * cores[name] for name in cores)
    allowed = (budget + growth * (sites.now / 3600.0) ** 2) * run
    assert wasted <= allowed + manners.meeting_s * attempts * 1.001


@pytest.mark.parametrize(("size", "slack_s"), [(1, 0.0), (2, 3600.0)])
def test_jobs_ask_for_time_to_wait_only_if_there_are_others(size: int, slack_s: float) -> None:
    begun = Rendezvous(group([4] * size, one_site=False)).begin(0.0)
    assert {each.slack_s for each in begun if isinstance(each, Submit)} == {slack_s}


def test_a_heterogeneous_job_of_one_part_asks_for_no_time_to_wait() -> None:
    (alone,) = HeterogeneousJob(group([4], one_site=True)).begin(0.0)
    assert isinstance(alone, SubmitTogether)
    assert alone.slack_s == 0.0


def test_idle_sites_begin_as_soon_as_the_last_placeholder_is_ready() -> None:
    members = group([4, 8], one_site=False)
    sites = begun(Rendezvous(members), members)
    for at in range(2):
        assert sites.went is None
        let_happen(sites, "start", 0, 1.0 if at else 0.5)
    assert sites.went == Go({"m0": 1, "m1": 1})
    assert sites.now == 1.5


def test_a_slot_is_given_back_at_once_when_the_estimates_leave_no_hope() -> None:
    members = group([4, 8], one_site=False)
    sites = begun(Rendezvous(members), members)
    sites.tell(Estimated("m1", 100_000.0))
    let_happen(sites, "start", 0, 1.0)
    assert ("m0", 1) not in sites.running
    assert ("m1", 1) in sites.queued


def test_a_slot_that_was_given_back_is_asked_for_again_when_the_slowest_is_ready() -> None:
    members = group([4, 8], one_site=False)
    sites = begun(Rendezvous(members), members)
    sites.tell(Estimated("m1", 100_000.0))
    let_happen(sites, "start", 0, 1.0)
    sites.now = 30.0
    sites.queued.discard(("m1", 1))
    sites.running[("m1", 1)] = sites.now
    sites.tell(Ready("m1", 1))
    assert ("m0", 2) in sites.queued


def test_patience_grows_with_the_time_a_group_has_been_trying() -> None:
    def patience_after(hours: float) -> float:
        members = group([8, 8], one_site=False)
        strategy = Rendezvous(members, RendezvousPolicy(use_estimates=False))
        sites = begun(strategy, members)
        sites.now = hours * 3600.0
        let_happen(sites, "start", 0, 0.0)
        assert strategy.deadline is not None
        return strategy.deadline - sites.now

    assert patience_after(0) < patience_after(5) < patience_after(10)


def test_a_refused_reservation_gives_all_others_back_and_moves_the_time() -> None:
    members = group([4, 8], one_site=False)
    strategy = Reservation(members, ahead_s=60.0)
    asked = [action for action in strategy.begin(0.0) if isinstance(action, Reserve)]
    assert [action.start for action in asked] == [60.0, 60.0]
    assert strategy.on(Reserved("m0", "r0"), 1.0) == []
    moved = strategy.on(NotReserved("m1", "no room", earliest=5000.0), 2.0)
    assert moved[0] == Unreserve("m0", "r0")
    assert [action.start for action in moved if isinstance(action, Reserve)] == [5000.0, 5000.0]


def test_a_time_to_which_the_last_site_agrees_when_it_has_begun_is_moved_by_as_long_as_that_took() -> None:
    strategy = Reservation(group([4, 8], one_site=False), ahead_s=10.0)
    strategy.begin(0.0)
    strategy.on(Reserved("m0", "r0"), 1.0)
    moved = strategy.on(Reserved("m1", "r1"), 25.0)
    assert moved[:2] == [Unreserve("m0", "r0"), Unreserve("m1", "r1")]
    assert [action.start for action in moved if isinstance(action, Reserve)] == [60.0, 60.0]
    strategy.on(Reserved("m0", "r2"), 30.0)
    submitted = strategy.on(Reserved("m1", "r3"), 50.0)
    assert {each.reservation for each in submitted if isinstance(each, Submit)} == {"r2", "r3"}


def test_sites_that_always_agree_too_late_are_given_up_and_nothing_is_kept() -> None:
    strategy = Reservation(group([4], one_site=False), ahead_s=10.0)
    now, number = 0.0, 0
    actions = strategy.begin(now)
    held: set[str] = set()
    while strategy.phase is Phase.GATHERING:
        (asked,) = [action for action in actions if isinstance(action, Reserve)]
        now, number = asked.start + 1.0, number + 1
        held.add(f"r{number}")
        actions = strategy.on(Reserved("m0", f"r{number}"), now)
        held -= {action.name for action in actions if isinstance(action, Unreserve)}
    assert strategy.phase is Phase.FAILED
    assert "to agree to a time" in strategy.reason
    assert not held


def test_jobs_are_submitted_into_their_reservations_once_every_site_has_agreed() -> None:
    members = group([4, 8], one_site=False)
    strategy = Reservation(members)
    strategy.begin(0.0)
    strategy.on(Reserved("m1", "r1"), 1.0)
    submitted = strategy.on(Reserved("m0", "r0"), 2.0)
    assert [(each.member, each.reservation) for each in submitted if isinstance(each, Submit)] == [
        ("m0", "r0"),
        ("m1", "r1"),
    ]


def test_jobs_are_submitted_once_whatever_else_is_heard_of_the_sites() -> None:
    strategy = Reservation(group([4, 8], one_site=False))
    strategy.begin(0.0)
    strategy.on(Reserved("m0", "r0"), 1.0)
    assert len(strategy.on(Reserved("m1", "r1"), 2.0)) == 2
    assert strategy.on(Estimated("m0", 500.0), 3.0) == []


def test_who_is_ready_in_its_reservation_is_held_for_as_long_as_the_others_may_take() -> None:
    strategy = Reservation(group([4, 8], one_site=False), ahead_s=10.0, meeting_s=300.0)
    strategy.begin(0.0)
    strategy.on(Reserved("m0", "r0"), 1.0)
    strategy.on(Reserved("m1", "r1"), 2.0)
    assert strategy.on(Ready("m1", 1), 11.0) == [Hold("m1", 1, 310.0)]
    assert strategy.on(Ready("m0", 1), 12.0) == [Go({"m0": 1, "m1": 1})]


def test_reservations_are_given_back_after_the_run() -> None:
    members = group([4], one_site=False)
    strategy = Reservation(members)
    strategy.begin(0.0)
    strategy.on(Reserved("m0", "r0"), 1.0)
    strategy.on(Ready("m0", 1), 70.0)
    assert strategy.finish() == [Unreserve("m0", "r0")]


def test_a_member_lost_after_go_ends_all_others() -> None:
    members = group([4, 8], one_site=False)
    sites = begun(Rendezvous(members), members)
    let_happen(sites, "start", 0, 1.0)
    let_happen(sites, "start", 0, 1.0)
    assert strategy_cancels(sites.strategy, Ended("m0", 1, "its node failed")) == ["m1"]
    assert sites.strategy.phase is Phase.FAILED
    assert "site0 has ended: its node failed" in sites.strategy.reason


@pytest.mark.parametrize("strategy", [Rendezvous, HeterogeneousJob])
def test_a_member_that_would_be_lost_again_ends_the_co_allocation_at_once(
    strategy: Callable[[Sequence[Member]], Strategy],
) -> None:
    members = group([4, 8], one_site=True)
    sites = begun(strategy(members), members)
    assert strategy_cancels(sites.strategy, Ended("m0", 1, "there is no module 'nothing'", for_good=True)) == ["m1"]
    assert sites.strategy.phase is Phase.FAILED
    assert "one has ended: there is no module 'nothing'" in sites.strategy.reason


def strategy_cancels(strategy: Strategy, event: Event) -> list[str]:
    return [action.member for action in strategy.on(event, 10.0) if isinstance(action, Cancel)]


def test_a_job_that_its_scheduler_refuses_ends_the_co_allocation() -> None:
    members = group([4, 8], one_site=False)
    strategy = Rendezvous(members)
    strategy.begin(0.0)
    assert strategy_cancels(strategy, Rejected("m0", 1, "unknown account")) == ["m1"]
    assert strategy.reason == "site0 does not take the job: unknown account"


def test_the_parts_of_a_heterogeneous_job_are_at_one_site() -> None:
    with pytest.raises(ValueError, match="one cluster"):
        HeterogeneousJob(group([1, 1], one_site=False))


def resumed(adopted: dict[str, int], spent: dict[str, int]) -> tuple[HeterogeneousJob, list[Action]]:
    """A heterogeneous job of two parts, of which an earlier launcher has left something; and how it begins."""
    job = HeterogeneousJob(group([4, 8], one_site=True))
    job.adopt(adopted, 0.0, spent)
    return job, job.begin(0.0)


def submitted_anew(actions: Sequence[Action], attempt: int, *cancelled: str) -> bool:
    """Whether an action submits both parts with this number, and the others release these members."""
    *others, last = actions
    assert isinstance(last, SubmitTogether)
    assert [each.member for each in others if isinstance(each, Cancel)] == list(cancelled)
    return (last.members, last.attempt) == (("m0", "m1"), attempt)


def test_a_whole_heterogeneous_job_of_an_earlier_launcher_keeps_its_place() -> None:
    assert resumed({"m0": 1, "m1": 1}, {})[1] == []


@pytest.mark.parametrize(
    ("adopted", "spent", "attempt", "cancelled"),
    [({}, {}, 1, ()), ({"m0": 1}, {"m1": 1}, 2, ("m0",)), ({}, {"m0": 3, "m1": 3}, 4, ())],
    ids=["none", "noted in part", "not noted"],
)
def test_a_heterogeneous_job_that_was_not_noted_as_a_whole_is_submitted_anew(
    adopted: dict[str, int], spent: dict[str, int], attempt: int, cancelled: tuple[str, ...]
) -> None:
    job, actions = resumed(adopted, spent)
    assert submitted_anew(actions, attempt, *cancelled)
    assert job.on(Ready("m0", attempt), 1.0) == []
    assert job.on(Ready("m1", attempt), 2.0) == [Go({"m0": attempt, "m1": attempt})]


def test_an_adopted_heterogeneous_job_that_has_lost_a_part_is_submitted_anew_once() -> None:
    job, _ = resumed({"m0": 1, "m1": 1}, {})
    gone = "the queue does not know it any more"
    assert submitted_anew(job.on(Ended("m0", 1, gone), 1.0), 2, "m1")
    assert job.on(Ended("m1", 1, gone), 2.0) == [], "this one was given back"
    job.on(Ended("m0", 2, "its node failed"), 3.0)
    assert job.phase is Phase.FAILED
    assert job.reason == "part m0 of the job has ended: its node failed"


def test_a_placeholder_never_has_the_number_of_one_that_may_still_start() -> None:
    members = group([4, 8], one_site=False)
    strategy = Rendezvous(members)
    strategy.adopt({"m0": 2}, 0.0, {"m1": 3})
    assert [(each.member, each.attempt) for each in strategy.begin(0.0) if isinstance(each, Submit)] == [("m1", 4)]


@pytest.mark.parametrize(("sizes", "why"), [([], "has members"), ([0], "is no job")])
def test_a_group_that_is_none_is_refused(sizes: list[int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Rendezvous(group(sizes, one_site=False))
