"""How a run with a program in Java ends: normally, by an exception, by an interrupt."""

from __future__ import annotations

import subprocess
from pathlib import Path

from model_runs import Run, run_document
from needs import needs_java
from xmml_planner.java import api_jar

pytestmark = needs_java

MODEL = """\
<model id="m" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <submodel id="A" class="A">
      <timescale delta="1 s" total="2 s"/>
      <ports> <out id="o" operator="Oi"/> <in id="i" operator="S"/> </ports>
      <implementation language="java"/>
    </submodel>
  </definitions>
  <topology>
    <instance id="a" submodel="A" init="yes"/> <instance id="b" submodel="A" init="yes"/>
    <coupling from="a.o" to="b.i"/> <coupling from="b.o" to="a.i"/>
  </topology>
</model>
"""
PROGRAM = """\
import org.xmml.*;

public class A {
    public static void main(String[] arguments) {
        try (Instance me = Instance.join()) {
            while (me.reuse()) {
                for (double t : me.steps()) {
                    STEP
                }
            }
        }
    }
}
"""


def ended(folder: Path, step: str, status: int) -> Run:
    (folder / "model.xmml").write_text(MODEL)
    (folder / "A.java").write_text(PROGRAM.replace("STEP", step))
    subprocess.run(["javac", "-cp", str(api_jar()), "A.java"], cwd=folder, check=True)
    return run_document(folder / "model.xmml", status=status)


EXCHANGE = 'me.send("o", t); me.receive("i").asDouble();'


def test_a_program_that_ends_normally_is_done(tmp_path: Path) -> None:
    ended(tmp_path, EXCHANGE, 0)


def test_an_exception_fails_the_instance_with_its_reason_and_place(tmp_path: Path) -> None:
    run = ended(
        tmp_path, EXCHANGE + ' if (me.name().equals("a")) throw new IllegalStateException("negative depth");', 4
    )
    assert "IllegalStateException: negative depth at A.java:8" in run.stderr


def test_a_blocked_receive_ends_when_its_thread_is_interrupted(tmp_path: Path) -> None:
    step = """
        while (me.name().equals("b")) java.util.concurrent.locks.LockSupport.park();
        me.send("o", t);
        Thread main = Thread.currentThread();
        Thread alarm = new Thread(main::interrupt);
        alarm.start();
        System.gc();
        me.receive("i");
    """
    run = ended(tmp_path, step, 4)
    assert "interrupted while waiting at A.java:" in run.stderr
