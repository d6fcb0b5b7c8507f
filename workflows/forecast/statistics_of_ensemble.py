"""Makes the products of the whole ensemble, of the fields of all members as they come."""

from datetime import UTC, datetime
from pathlib import Path

import generation
import requirements

import xmml

#: What a product has from its fields.
DESCRIPTION = ("class", "expver", "stream", "date", "step", "param", "levtype", "levelist")

with xmml.Instance() as me:
    wanted = requirements.read(Path(me.param("requirements")))
    while me.reuse():
        products = 0
        waiting: dict[requirements.Key, generation.Ensemble] = {}
        for field in me.objects("fields"):
            key = field["param"], field.get("levelist", 0), field["step"], None
            if key not in wanted:
                continue
            ensemble = waiting.setdefault(key, generation.Ensemble(wanted[key], field["total"]))
            if not ensemble.add(field.data):
                continue
            del waiting[key]
            grid = generation.Grid.of(field["area"], field["grid"], field.data.shape)
            description = {name: field[name] for name in DESCRIPTION if name in field}
            for request in ensemble.requests:
                me.put(
                    "products",
                    ensemble.make(request, grid),
                    **description | generation.extent(request, grid) | request.attributes,
                    made=datetime.now(UTC),
                )
            products += len(ensemble.requests)
        print(f"{products} products of the ensemble")
