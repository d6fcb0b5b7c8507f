"""Model documents of any size."""

from __future__ import annotations

HEAD = '<model id="{id}" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml">\n'


def network(instances: int, couplings: int, steps: int = 1000) -> str:
    """Instances in a ring, each of which interacts with its neighbours: `couplings` in all, the same number each."""
    ports = couplings // instances
    lines = [HEAD.format(id="network"), "<definitions>\n"]
    lines.append('  <submodel id="Cell">\n')
    lines.append(f'    <timescale delta="1 s" total="{steps} s"/>\n    <ports>\n')
    for port in range(ports):
        lines.append(f'      <out id="o{port}" operator="Oi"/> <in id="i{port}" operator="S"/>\n')
    lines.append("    </ports>\n  </submodel>\n</definitions>\n<topology>\n")
    lines += [f'  <instance id="c{instance}" submodel="Cell" init="yes"/>\n' for instance in range(instances)]
    for instance in range(instances):
        for port in range(ports):
            other = (instance + port + 1) % instances
            lines.append(f'  <coupling from="c{instance}.o{port}" to="c{other}.i{port}"/>\n')
    lines.append("</topology>\n</model>\n")
    return "".join(lines)


def restenosis(steps: int) -> str:
    """In-stent restenosis: tissue that calls blood flow and drug diffusion in each of its macro steps."""
    return f"""{HEAD.format(id="restenosis")}<definitions>
  <mapper id="Agents2lattice" type="fan-out">
    <ports> <in id="agents"/> <out id="lattice"/> <out id="cells"/> </ports>
  </mapper>
  <mapper id="Lattice2agents" type="fan-in">
    <ports> <in id="lattice"/> <in id="cells"/> <out id="agents"/> </ports>
  </mapper>
  <submodel id="Start">
    <timescale delta="1 s" total="1 s"/>
    <ports> <out id="cells" operator="Of"/> </ports>
  </submodel>
  <submodel id="Cells">
    <timescale delta="1000 s" total="{steps}000 s"/>
    <ports>
      <in id="initial" operator="finit"/> <out id="positions" operator="Oi"/>
      <in id="stress" operator="S"/> <in id="drug" operator="S"/>
    </ports>
    <implementation runtime="1 s"/>
  </submodel>
  <submodel id="Flow" stateful="optional">
    <timescale delta="0.1 us" total="1 s"/>
    <ports> <in id="domain" operator="finit"/> <out id="stress" operator="Of"/> </ports>
    <implementation cores="1024" runtime="30 min"/>
  </submodel>
  <submodel id="Drug">
    <timescale delta="1000 s" total="{steps}000 s"/>
    <ports> <in id="domain" operator="finit"/> <out id="concentration" operator="Of"/> </ports>
  </submodel>
</definitions>
<topology>
  <instance id="ic" submodel="Start" domain="artery"/>
  <instance id="smc" submodel="Cells" domain="artery.tissue"/>
  <instance id="bf" submodel="Flow" domain="artery.blood"/>
  <instance id="dd" submodel="Drug" domain="artery.tissue"/>
  <instance id="agents2lattice" mapper="Agents2lattice"/>
  <instance id="bf2agents" mapper="Lattice2agents"/>
  <instance id="dd2agents" mapper="Lattice2agents"/>
  <coupling from="ic.cells" to="smc.initial" size="10 MB"/>
  <coupling from="smc.positions" to="agents2lattice.agents"/>
  <coupling from="agents2lattice.lattice" to="bf.domain"/>
  <coupling from="agents2lattice.lattice" to="dd.domain"/>
  <coupling from="agents2lattice.cells" to="bf2agents.cells"/>
  <coupling from="agents2lattice.cells" to="dd2agents.cells"/>
  <coupling from="bf.stress" to="bf2agents.lattice"/>
  <coupling from="dd.concentration" to="dd2agents.lattice"/>
  <coupling from="bf2agents.agents" to="smc.stress"/>
  <coupling from="dd2agents.agents" to="smc.drug"/>
</topology>
</model>
"""
