"""Models of many instances, and a catalogue of many sites."""

from __future__ import annotations

HEAD = '<model id="{id}" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml">\n'
CALLS = '<out id="state" operator="Oi"/> <in id="result" operator="S"/>'
IS_CALLED = '<in id="state" operator="finit"/> <out id="result" operator="Of"/>'


def copies(instances: int) -> str:
    """A macro model that calls equal copies of one micro model, through mappers that scatter and gather."""
    return (
        HEAD.format(id="copies")
        + "<definitions>\n"
        + _mapper("Scatter", "fan-out")
        + _mapper("Gather", "fan-in")
        + _submodel("Macro", 1, 100, 8, CALLS)
        + _submodel("Micro", 0.1, 10, 1, IS_CALLED)
        + "</definitions>\n<topology>\n"
        + '  <instance id="macro" submodel="Macro"/>\n'
        + '  <instance id="scatter" mapper="Scatter"/> <instance id="gather" mapper="Gather"/>\n'
        + f'  <instance id="micro" submodel="Micro" multiplicity="{instances - 3}"/>\n'
        + _coupling("macro.state", "scatter.in", 8)
        + _coupling("scatter.out", "micro.state", 8)
        + _coupling("micro.result", "gather.in", 8)
        + _coupling("gather.out", "macro.result", 8)
        + "</topology>\n</model>\n"
    )


def pairs(instances: int) -> str:
    """Macro models that call a micro model each; every instance has a submodel of its own."""
    lines = [HEAD.format(id="pairs"), "<definitions>\n"]
    for pair in range(instances // 2):
        lines.append(_submodel(f"Macro{pair}", 1, 50 + pair % 100, 1 + pair % 4, CALLS))
        lines.append(_submodel(f"Micro{pair}", 0.1, 1 + pair % 3, 1 + pair % 3, IS_CALLED))
    lines.append("</definitions>\n<topology>\n")
    for pair in range(instances // 2):
        lines.append(f'  <instance id="macro{pair}" submodel="Macro{pair}"/>\n')
        lines.append(f'  <instance id="micro{pair}" submodel="Micro{pair}"/>\n')
    for pair in range(instances // 2):
        lines.append(_coupling(f"macro{pair}.state", f"micro{pair}.state", 80))
        lines.append(_coupling(f"micro{pair}.result", f"macro{pair}.result", 80))
    lines.append("</topology>\n</model>\n")
    return "".join(lines)


def sites(number: int, cores: int) -> str:
    """A file of sites with so many cores each, some faster and some with longer queues, and a link for each pair."""
    names = [f"s{place}" for place in range(number)]
    lines = []
    for place, name in enumerate(names):
        lines.append(
            f'[site.{name}]\nssh = "{name}.example.org"\nscheduler = "slurm"\nnodes = {-(-cores // 16)}\ncores = 16\n'
            f'speed = {(0.8, 1.0, 1.2, 1.5)[place % 4]}\nqueue_wait = "{(0, 10, 20)[place % 3]} s"\n'
            f'[site.{name}.relay]\nlisten = "{name}.example.org:40001"\n\n'
        )
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            lines.append(f'[[link]]\nbetween = ["{one}", "{other}"]\nlatency = "10 ms"\nbandwidth = "1 Gbit/s"\n\n')
    return "".join(lines)


def _mapper(name: str, kind: str) -> str:
    ports = '<in id="in"/> <out id="out"/>'
    return f'  <mapper id="{name}" class="{name.lower()}" type="{kind}"> <ports> {ports} </ports> </mapper>\n'


def _submodel(name: str, delta_s: float, runtime_s: int, cores: int, ports: str) -> str:
    total_s = 1 if delta_s < 1 else 100
    return (
        f'  <submodel id="{name}">\n    <timescale delta="{delta_s:g} s" total="{total_s} s"/>\n'
        f'    <ports> {ports} </ports>\n    <implementation cores="{cores}" runtime="{runtime_s} s">'
        '<code language="python" part="S">pass</code></implementation>\n  </submodel>\n'
    )


def _coupling(sender: str, receiver: str, size_kb: int) -> str:
    return f'  <coupling from="{sender}" to="{receiver}" size="{size_kb} kB"/>\n'
