"""Drawings into files: Graphviz for graphs, matplotlib for what has axes."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ImageFormat = Literal["svg", "png", "pdf"]
IMAGE_FORMATS: tuple[ImageFormat, ...] = ("svg", "png", "pdf")

#: After this long a layout is given up; a readable picture takes seconds.
LAYOUT_TIMEOUT_S = 120.0
_DOTS_PER_INCH = 150


class RenderError(Exception):
    """A picture that cannot be made; the text says why and what to do."""


def layout(dot: str, form: ImageFormat, timeout_s: float = LAYOUT_TIMEOUT_S) -> bytes:
    """Return a drawing in the DOT language as a picture.

    Raises:
        RenderError: Graphviz is missing, takes too long, or refuses the drawing.
    """
    program = shutil.which("dot")
    if program is None:
        raise RenderError(
            f'a .{form} needs the program "dot" of Graphviz, which is not installed: apt-get install graphviz '
            "(or conda install graphviz); .dot, .graphml and .json need nothing"
        )
    command = [program, f"-T{form}"]
    if form == "png":
        command.append(f"-Gdpi={_DOTS_PER_INCH}")
    try:
        done = subprocess.run(command, input=dot.encode(), capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise RenderError(
            f"Graphviz found no layout within {timeout_s:g} s: the graph is too large to be drawn; "
            "write it as .graphml or .json and look at it in a program for large graphs (Gephi, yEd)"
        ) from None
    if done.returncode != 0 or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else f"exit status {done.returncode}"
        raise RenderError(f"Graphviz could not draw the graph: {reason}")
    return done.stdout


def plot(figure: Figure, form: ImageFormat) -> bytes:
    """Return a figure as a picture; the same figure gives the same bytes."""
    import io

    from matplotlib import rc_context

    stream = io.BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form]
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "xmml", "pdf.fonttype": 42}):
        figure.savefig(stream, format=form, dpi=_DOTS_PER_INCH, metadata=metadata)
    return stream.getvalue()
