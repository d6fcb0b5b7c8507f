"""Hands products over to the archive."""

from datetime import UTC, datetime

import generation
import numpy as np
from requirements import OF_ENSEMBLE, Request

import xmml

#: What a product has from its field.
DESCRIPTION = ("class", "expver", "stream", "date", "step", "number", "param", "levtype", "levelist")


def grid_of(field: xmml.Object) -> generation.Grid:
    return generation.Grid.of(field["area"], field["grid"], field.data.shape)


def deliver(me: xmml.Instance, request: Request, product: np.ndarray | float, field: xmml.Object) -> None:
    """Put a product of a field; one of the whole ensemble is of no member."""
    description = {name: field[name] for name in DESCRIPTION if name in field}
    if request.product in OF_ENSEMBLE:
        del description["number"]
    place = generation.extent(request, grid_of(field))
    me.put("products", product, **description | place | request.attributes, made=datetime.now(UTC))
