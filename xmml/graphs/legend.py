"""The caption of a coupling picture: what the model is, and what the symbols on it mean."""

from __future__ import annotations

from collections.abc import Collection

from xmml.graphs.dot import Html, escaped
from xmml.graphs.palette import INK, POOL, QUIET_INK, TEMPLATES
from xmml.model import Model

#: The arrow ends as characters, in the order of the execution loop.
_SYMBOLS = (
    ("finit", "◇", "f_init"),
    ("Oi", "●", "O_i"),
    ("S", "○", "S"),
    ("B", "▷", "B"),
    ("Of", "◆", "O_f"),
)
_TEMPLATES = ("interact", "call", "release", "dispatch")


def legend(
    model: Model,
    templates: Collection[str | None],
    operators: Collection[str | None],
    has_state: bool = False,
    pools: Collection[bool] = (),
    note: str = "",
) -> Html:
    """Return the caption: the title, the symbols and colours that occur, and a note.

    Args:
        templates, operators: those of the couplings that are drawn.
        has_state: some of them carry the state of an instance to its next run.
        pools: of those that are pools, whether their receivers see the newest objects only.
    """
    symbols = [f"{glyph} {word}" for operator, glyph, word in _SYMBOLS if operator in operators]
    if symbols and None in operators:
        symbols.append("➤ mapper or terminal" if "finit" in operators or "S" in operators else "➤")
    colours = [_coloured(TEMPLATES[template], f"━ {template}") for template in _TEMPLATES if template in templates]
    if has_state:
        colours.append(_coloured(TEMPLATES[None], "┅ state"))
    if False in pools:
        colours.append(_coloured(POOL, "┅ pool"))
    if True in pools:
        colours.append(_coloured(POOL, "┈ latest"))
    rows = [f'<FONT POINT-SIZE="13" COLOR="{INK}"><B>{escaped(model.name or model.id)}</B></FONT>']
    gap = "&#160;&#160;&#160;&#160;"
    if symbols or colours:
        rows.append(gap.join([*symbols, *colours]))
    if note:
        rows.append(f"<I>{escaped(note)}</I>")
    cells = "".join(
        f'<TR><TD ALIGN="LEFT"><FONT POINT-SIZE="9.5" COLOR="{QUIET_INK}">{row}</FONT></TD></TR>' for row in rows
    )
    return Html(f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="3">{cells}</TABLE>')


def _coloured(colour: str, text: str) -> str:
    return f'<FONT COLOR="{colour}">{text}</FONT>'
