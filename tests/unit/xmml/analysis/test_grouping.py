"""What has to be available together, what takes turns, what can wait."""

from __future__ import annotations

from small_models import model

from xmml.analysis.grouping import JobGroup, jobs
from xmml.analysis.network import network


def jobs_of(text: str) -> tuple[JobGroup, ...]:
    return jobs(network(model(text)))


def test_a_dispatch_separates_two_jobs() -> None:
    first, second = jobs_of("a\nb\na.Of -> b.finit")
    assert (first.instances, second.instances) == (("a",), ("b",))


def test_instances_that_interact_are_one_job_with_cores_of_their_own() -> None:
    (job,) = jobs_of("a 3 cores=2\nb 3 cores=4\na.Oi -> b.S\nb.Oi -> a.S")
    assert (job.instances, job.cores, job.takes_turns) == (("a", "b"), 6, ())


def test_messages_in_one_direction_while_both_run_keep_them_together() -> None:
    (job,) = jobs_of("a 3\nb 3\na.Oi -> b.S")
    assert job.instances == ("a", "b")


def test_macro_and_micro_take_turns_and_share_cores() -> None:
    (job,) = jobs_of("m 3 cores=8\nu 2 cores=4\nm.Oi -> u.finit\nu.Of -> m.S")
    assert (job.cores, job.takes_turns) == (8, (("m", "u"),))


def test_two_micro_models_of_one_macro_model_compute_at_the_same_time() -> None:
    (job,) = jobs_of(
        "m 3 cores=1\nu cores=4\nv cores=4\nm.Oi.a -> u.finit\nm.Oi.b -> v.finit\nu.Of -> m.S.c\nv.Of -> m.S.d"
    )
    assert (job.cores, job.takes_turns) == (8, (("m", "u", "v"),))


def test_a_macro_model_and_its_copies_behind_mappers_take_turns() -> None:
    (job,) = jobs_of(
        "m 3 cores=2\ns mapper\ng mapper\nu x4\nm.Oi -> s.in\ns.out -> u.finit\nu.Of -> g.in\ng.out -> m.S"
    )
    assert ("m", "u") in job.takes_turns


def test_instances_that_dispatch_in_a_circle_are_one_job() -> None:
    (job,) = jobs_of("a\nb\na.Of -> b.finit\nb.Of -> a.finit")
    assert job.instances == ("a", "b")


def test_jobs_come_in_the_order_in_which_they_start() -> None:
    whole = network(model("late\nearly\nearly.Of -> late.finit"))
    assert [job.instances for job in jobs(whole, begin_ns=[5, 0])] == [("early",), ("late",)]
