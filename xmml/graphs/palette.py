"""Colours and type of all pictures: calm, distinguishable for colour-blind readers, readable on paper and on a screen.

The hues of the templates are those of Okabe and Ito ("Color universal design", 2008), darkened where they are lines on
white.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xmml.late_dataclass import dataclass

#: Fonts in the order of preference; the last is what every machine has.
FONT = "Helvetica,Arial,DejaVu Sans,sans-serif"

INK = "#1f2933"
QUIET_INK = "#616e7c"
FAINT_INK = "#9aa5b1"
PAPER = "#ffffff"
CLUSTER_FILL = "#f6f8fa"
CLUSTER_LINE = "#b8c2cc"
ALARM = "#c62828"


@dataclass(frozen=True)
class Paint:
    """A filled shape."""

    fill: str
    line: str


#: What takes longest.
CRITICAL = Paint("#ffe3c9", "#d4600a")

#: How instances are painted, by kind.
KINDS: Mapping[str, Paint] = MappingProxyType(
    {
        "submodel": Paint("#e8f0f9", "#4a78a8"),
        "mapper": Paint("#fdf3dd", "#b58a2e"),
        "terminal": Paint("#eaf4ec", "#5b9168"),
    }
)

#: How couplings are painted, by template; `None`: a coupling of which only one end is known.
TEMPLATES: Mapping[str | None, str] = MappingProxyType(
    {
        "interact": "#0072b2",
        "call": "#c2510a",
        "release": "#8a4a9e",
        "dispatch": "#00805e",
        None: "#707d8a",
    }
)

#: How pools are painted.
POOL = "#a6761d"

#: Muted colours of boxes that must be told apart from each other and from the lines between them.
CYCLE = ("#3d6b99", "#8c6d31", "#4a8a70", "#8a5a83", "#a05a4a", "#5b5b9e", "#6f7f2f", "#4f7f8f")
