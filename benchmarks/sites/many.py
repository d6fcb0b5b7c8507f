"""A model of many small instances, half of them at each of two sites; each talks with one at the other."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from testbed import Bed
from testbed.pair import Pair

_MODEL = """\
<model id="many" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml">
  <definitions>
    <submodel id="Talker">
      <timescale delta="1 s" total="{steps} s"/>
      <ports> <out id="say" operator="Oi"/> <in id="hear" operator="S"/> </ports>
      {implementation}
    </submodel>
  </definitions>
  <topology>
{topology}
  </topology>
</model>
"""
_INLINE = """\
<implementation><code language="python" part="Oi">say = t</code>
        <code language="python" part="S">import time; time.sleep({pause})</code></implementation>"""
#: What the inline code does, as a file: each instance is a process.
PROGRAM = """\
import time
import xmml

with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            me.send("say", t)
            me.receive("hear")
            time.sleep({pause})
"""
_INSTANCES = '    <instance id="{left}" submodel="Talker"/> <instance id="{right}" submodel="Talker"/>'
_COUPLINGS = """\
    <coupling from="{left}.say" to="{right}.hear"/> <coupling from="{right}.say" to="{left}.hear"/>"""


def model_text(couples: Iterable[tuple[str, str]], steps: int, pause: float, program: str = "") -> str:
    """Return the model in which the two of each couple talk with each other.

    Args:
        program: the file that each instance runs; empty: inline code.
    """
    pairs = list(couples)
    implementation = f'<implementation language="python" path="{program}"/>' if program else _INLINE
    rows = [row.format(left=left, right=right) for row in (_INSTANCES, _COUPLINGS) for left, right in pairs]
    return _MODEL.format(steps=steps, implementation=implementation.format(pause=pause), topology="\n".join(rows))


class Many(Pair):
    """The model in a folder of its own. Its instances are inline code, so those of a site share a process.

    Args:
        instances: how many; `places` says at which site each is to be.
    """

    def __init__(
        self, bed: Bed, folder: Path, sites: tuple[str, str], instances: int, *, steps: int, pause: float
    ) -> None:
        super().__init__(bed, folder, steps=steps, pause=pause)
        couples = [(f"left{number}", f"right{number}") for number in range(instances // 2)]
        (folder / "model.xml").write_text(model_text(couples, steps, pause))
        self.places = {name: site for couple in couples for name, site in zip(couple, sites, strict=True)}
