"""Pools in Fortran: arrays of every type, rank and order. tests/models/test_pools_in_every_language.py has the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compiled import SANITIZED
from fortran import TYPES, compiled
from model_runs import Run, run_document
from needs import needs
from pool_models import model_of, pool

pytestmark = needs("gfortran")

EXTENTS = (2, 3, 1, 2, 1, 2, 2)
READER = """
import numpy, xmml

def elements(places, kind):
    if kind == "bool":
        return places % 3 == 0
    if kind.startswith("complex"):
        return places - 1j * places
    return places * 2**40 if kind == "int64" else places / 4 if kind.startswith("float") else places

with xmml.Instance() as me:
    while me.reuse():
        for taken in me.objects("objects"):
            kind, shape = taken["kind"], taken.data.shape
            places = numpy.arange(1, taken.data.size + 1).reshape(shape, order="F")
            wanted = elements(places, kind).astype(kind)
            print(kind, taken["rank"], *shape, taken.data.dtype == kind and (taken.data == wanted).all())
"""
MODEL = """\
<model id="pools" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <datatype id="described" run:attributes="kind:str! rank:int!"/>
    <submodel id="Writer">
      <timescale delta="1 s" total="1 s"/>
      <ports><out id="objects" datatype="described"/></ports>
      <implementation path="{writer}"/>
    </submodel>
    <submodel id="Reader">
      <timescale delta="1 s" total="1 s"/>
      <ports><in id="objects" datatype="described"/></ports>
      <implementation language="python" path="reader.py"/>
    </submodel>
  </definitions>
  <topology>
    <instance id="writer" submodel="Writer"/>
    <instance id="reader" submodel="Reader"/>
    <coupling from="writer.objects" to="reader.objects" run:kind="pool"/>
  </topology>
</model>
"""
#: The name of a type in every language; default logicals travel as bool, too.
NAMES = {
    **{f"integer(int{bits})": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"real(real{bits})": f"float{bits}" for bits in (32, 64)},
    **{f"complex(real{bits})": f"complex{2 * bits}" for bits in (32, 64)},
    "logical": "bool",
    "logical(c_bool)": "bool",
}


def puts(declared: str, rank: int) -> str:
    """A block that puts an array of a type and rank by the name of the port, and by the port."""
    extents = EXTENTS[:rank]
    size = int(np.prod(extents, dtype=int))
    value = TYPES[declared] if rank else TYPES[declared].replace("places", "places(1)")
    more = "" if rank else ", array=.true."
    attributes = f'"kind={NAMES[declared]} rank={rank}"'
    return f"""
        block
            integer :: places({size}), i
            {declared} :: data{f"({','.join(map(str, extents))})" if rank else ""}
            places = [(i, i = 1, {size})]
            data = {f"reshape({value}, [{','.join(map(str, extents))}])" if rank else value}
            call me%put("objects", data, {attributes}{more})
            call objects%put(data, {attributes}{more})
        end block"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("pools")
    source = folder / "writer.f90"
    blocks = "".join(puts(declared, rank) for declared in TYPES for rank in range(8))
    source.write_text(f"""
program writer
    use, intrinsic :: iso_c_binding, only: c_bool
    use, intrinsic :: iso_fortran_env
    use xmml
    implicit none
    type(xmml_instance) :: me
    type(xmml_out_port) :: objects
    call me%join()
    objects = me%out("objects")
    do while (me%reuse()){blocks}
    end do
    call me%leave()
end program
""")
    (folder / "reader.py").write_text(READER)
    document = folder / "model.xmml"
    options = ("-Wno-conversion", "-Wno-unused-parameter", *SANITIZED)
    document.write_text(MODEL.format(writer=compiled(source, options=options)))
    return run_document(document)


@pytest.mark.parametrize("declared", TYPES)
def test_arrays_of_every_rank_are_put_without_a_leak(run: Run, declared: str) -> None:
    first = list(TYPES).index(declared) * 16
    lines = run.lines("reader")[first : first + 16]
    shapes = [EXTENTS[:rank] for rank in range(8) for _ in range(2)]
    assert lines == [" ".join(map(str, [NAMES[declared], len(shape), *shape, True])) for shape in shapes]


def test_an_array_in_rows_is_taken_in_columns(tmp_path: Path) -> None:
    source = tmp_path / "reader.f90"
    source.write_text("""
program reader
    use, intrinsic :: iso_fortran_env
    use xmml
    implicit none
    type(xmml_instance) :: me
    type(xmml_message) :: object
    real(real64), pointer :: field(:, :)
    call me%join()
    do while (me%reuse())
        do while (me%take("fields", object))
            call object%view(field)
            print "(*(i0, 1x))", shape(field), int([field(2, 1), field(1, 2), field(2, 3)])
        end do
    end do
    call me%leave()
end program
""")
    writer = """
        import numpy as np, xmml
        with xmml.Instance() as me:
            while me.reuse():
                rows = np.array([[11.0, 12, 13], [21, 22, 23]])
                for step, field in enumerate((rows, np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2])):
                    me.put("fields", field, step=step)
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": ""},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r"),
    )
    python = 'language="python" path="Reader.py"'
    model.write_text(model.read_text().replace(python, f'path="{compiled(source, options=SANITIZED)}"'))
    assert run_document(model, folder=tmp_path / "run").lines("r") == ["2 3 21 12 23"] * 3
