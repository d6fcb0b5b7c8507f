"""Small models with pools, of programs in Python."""

from __future__ import annotations

import textwrap
from pathlib import Path

ATTRIBUTES = "step:int[0..]! param:enum(t,u,v) share:real"


def model_of(
    folder: Path, programs: dict[str, str], instances: str, couplings: str, ports: dict[str, str] | None = None
) -> Path:
    """Write a model whose submodels are these programs, by name; a port is in the loop only if `ports` says so."""
    folder.mkdir(exist_ok=True)
    definitions = []
    for name, program in programs.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(program))
        direction = "out" if ".put(" in program else "in"
        own = (ports or {}).get(name, f'<{direction} id="fields" datatype="field"/>')
        definitions.append(
            f'<submodel id="{name}"><timescale delta="1 s" total="4 s"/><param id="every" value="2"/>'
            f'<ports>{own}</ports><implementation language="python" path="{name}.py"/></submodel>'
        )
    model = folder / "model.xmml"
    model.write_text(
        '<model id="pools" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">'
        f'<definitions><datatype id="field" run:attributes="{ATTRIBUTES}"/>{"".join(definitions)}</definitions>'
        f"<topology>{instances}{couplings}</topology></model>"
    )
    return model


def pool(sender: str, receiver: str, select: str = "true", **settings: str) -> str:
    """Return a coupling from `fields` to `fields` that is a pool."""
    more = "".join(f' run:{name}="{value}"' for name, value in settings.items())
    select = select.replace("&", "&amp;").replace("<", "&lt;")
    return f'<coupling from="{sender}.fields" to="{receiver}.fields" run:kind="pool" run:select="{select}"{more}/>'
