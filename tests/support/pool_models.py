"""Small models with pools, of programs in Python and others."""

from __future__ import annotations

import textwrap
from pathlib import Path

ATTRIBUTES = "step:int[0..]! param:enum(t,u,v) share:real"


def model_of(
    folder: Path,
    programs: dict[str, str],
    instances: str,
    couplings: str,
    ports: dict[str, str] | None = None,
    writers: dict[str, str] | None = None,
) -> Path:
    """Write a model whose submodels are these programs, by name; a port is in the loop only if `ports` says so.

    `writers` are further ones, in any language: the attributes of their implementations.
    """
    folder.mkdir(exist_ok=True)
    implementations, directions = dict(writers or {}), dict.fromkeys(writers or {}, "out")
    for name, program in programs.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(program))
        directions[name] = "out" if ".put(" in program else "in"
        implementations[name] = f'language="python" path="{name}.py"'
    definitions = []
    for name, implementation in implementations.items():
        own = (ports or {}).get(name, f'<{directions[name]} id="fields" datatype="field"/>')
        definitions.append(
            f'<submodel id="{name}"><timescale delta="1 s" total="4 s"/><param id="every" value="2"/>'
            f"<ports>{own}</ports><implementation {implementation}/></submodel>"
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
