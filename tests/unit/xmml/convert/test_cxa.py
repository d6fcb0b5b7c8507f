"""CxA: the script that MUSCLE 2 reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmml.check import check
from xmml.convert.converted import Converted
from xmml.convert.cxa import number_text, to_cxa

MODEL = """<model id="m" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1"
       xmlns:site="urn:site">
  <definitions>
    <datatype id="lattice"/>
    <filter id="coarsen" type="reduction" factor="n/10" class="org.example.Coarsen" dimension="x"/>
    <filter id="scale" type="converter" class="multiply"/>
    <submodel id="Macro" class="org.example.Macro">
      <timescale delta="1 min" total="1 hr"/>
      <spacescale id="x" delta="1 mm" total="1 m" dimensions="2"/>
      <otherscale id="age" delta="1" total="12"/>
      <param id="n" value="12"/> <param id="file" value="a 'b'.txt"/>
      <ports> <out id="state" operator="Oi"/> <in id="answer" operator="S"/> </ports>
      <implementation path="lib/macro.jar"> <library name="math" path="lib/native"/> </implementation>
    </submodel>
    <submodel id="Micro">
      <timescale delta="1 ms" total="1 s"/>
      <ports> <in id="start" operator="finit"/> <out id="answer" operator="Of"/> </ports>
      <implementation language="c++" path="bin/micro" cores="4" site:started-by="mpirun"/>
    </submodel>
    <submodel id="Watch">
      <timescale delta="1 min" total="1 hr"/>
      <ports> <in id="state" operator="S"/> </ports>
      <implementation language="python" path="watch.py"/>
    </submodel>
    <terminal id="Log" type="sink" class="org.example.Log"> <ports> <in id="state"/> </ports> </terminal>
  </definitions>
  <topology>
    <instance id="macro" submodel="Macro" init="yes"/>
    <instance id="micro" submodel="Micro"/>
    <instance id="end" submodel="Watch" init="yes"/>
    <instance id="log" terminal="Log"/>
    <coupling from="macro.state" to="micro.start">
      <apply filter="coarsen"/> <apply filter="scale" factor="0.5"/>
    </coupling>
    <coupling from="micro.answer" to="macro.answer"/>
    <coupling from="macro.state" to="end.state"/>
    <coupling from="macro.state" to="log.state"/>
  </topology>
</model>
"""

GOLDEN = """add_classpath "lib/macro.jar"
add_libpath "lib/native"

$env["max_timesteps"] = "3.6e3 s"

macro = Instance.new('macro', 'org.example.Macro')
micro = MPIInstance.new('micro', 'bin/micro')
end_ = PythonInstance.new('end', 'watch.py')
log = Terminal.new('log', 'org.example.Log')

macro['n']=12
macro['file']="a 'b'.txt"
macro['dt']="6.0e1 s"
macro['T']="3.6e3 s"
macro['dx']="1.0e-3 m"
macro['X']="1.0 m"
macro['dy']="1.0e-3 m"
macro['Y']="1.0 m"
macro['dage']="1.0"
macro['AGE']="12.0"
micro['dt']="1.0e-3 s"
micro['T']="1.0 s"
end_['dt']="6.0e1 s"
end_['T']="3.6e3 s"

macro.couple(micro, {'state' => 'start'}, ['coarsen_1.2', 'multiply_0.5'])
micro.couple(macro, 'answer')
macro.couple(end_, 'state')
macro.couple(log, 'state')
"""


@pytest.fixture
def converted(tmp_path: Path) -> Converted:
    path = tmp_path / "model.xmml"
    path.write_text(MODEL)
    result = check(path)
    assert result.resolved is not None, result.problems
    return to_cxa(result.resolved)


def test_the_script_has_paths_limit_kernels_parameters_and_couplings_in_this_order(converted: Converted) -> None:
    assert converted.text == GOLDEN


def test_notes_tell_what_muscle_2_refuses(converted: Converted) -> None:
    notes = "\n".join(converted.notes)
    assert "second coupling of the out port macro.state" in notes
    assert 'no filter "coarsen"' in notes
    assert '"end" is no name of a variable in Ruby' in notes


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.2, "1.2"), (10.0, "10"), (1e20, "1e20"), (1e-7, "1e-7"), (-0.5, "-0.5"), (1.5e300, "1.5e300")],
)
def test_numbers_have_no_plus_in_the_exponent(number: float, text: str) -> None:
    assert number_text(number) == text
    assert float(text) == number


def test_strings_cannot_leave_their_quotes(tmp_path: Path) -> None:
    path = tmp_path / "model.xmml"
    path.write_text(MODEL.replace("a 'b'.txt", "#{exit} &quot; \\"))
    model = check(path).resolved
    assert model is not None
    assert 'macro[\'file\']="\\#{exit} \\" \\\\"' in to_cxa(model).text
