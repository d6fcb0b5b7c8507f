"""The report of a run, whatever words stand in it."""

from __future__ import annotations

from collections.abc import Callable

from xmml_executors.instance_record import InstanceRecord
from xmml_executors.outcome import ExitStatus, Outcome
from xmml_executors.report import report
from xmml_executors.run_result import RunResult
from xmml_planner import Plan

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


def test_hostile_words_are_text_and_the_page_may_load_and_execute_nothing(make_plan: Callable[..., Plan]) -> None:
    record = InstanceRecord("a")
    record.host = HOSTILE
    result = RunResult(Outcome(ExitStatus.MODEL_ERROR, HOSTILE), 1.0, {"a": record}, HOSTILE)
    page = report(make_plan("a"), result, HOSTILE, {"started": HOSTILE, "host": HOSTILE})
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("&lt;script&gt;") >= 5
    assert page.index("default-src 'none'") < page.index("<title>")


def test_how_a_conduit_travels_is_text_though_a_program_has_chosen_the_word(make_plan: Callable[..., Plan]) -> None:
    records = {name: InstanceRecord(name) for name in "ab"}
    records["a"].methods[0] = records["b"].cpus = HOSTILE
    result = RunResult(Outcome(ExitStatus.DONE, ""), 1.0, records)
    page = report(make_plan("a", "b", couplings=[("a", "b")]), result, "m", {"started": "", "host": ""})
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 2
