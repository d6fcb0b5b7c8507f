"""Makes the products of single fields. The workers share a queue: each field comes to one of them."""

from datetime import UTC, datetime
from pathlib import Path

import generation
import requirements

import xmml

#: What a product has from its field.
DESCRIPTION = ("class", "expver", "stream", "date", "step", "number", "param", "levtype", "levelist")

with xmml.Instance() as me:
    wanted = requirements.read(Path(me.param("requirements")))
    while me.reuse():
        fields = products = 0
        for field in me.objects("fields"):
            fields += 1
            requests = wanted.get((field["param"], field.get("levelist", 0), field["step"], field["number"]), ())
            if not requests:
                continue
            values = field.data
            grid = generation.Grid.of(field["area"], field["grid"], values.shape)
            description = {name: field[name] for name in DESCRIPTION if name in field}
            for request in requests:
                me.put(
                    "products",
                    generation.make(request, values, grid),
                    **description | generation.extent(request, grid) | request.attributes,
                    made=datetime.now(UTC),
                )
            products += len(requests)
        print(f"{products} products of {fields} fields")
