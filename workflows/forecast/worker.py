"""Makes the products of single fields. The workers share a queue: each field comes to one of them."""

from pathlib import Path

import generation
import requirements
from delivery import deliver, grid_of

import xmml

with xmml.Instance() as me:
    wanted = requirements.read(Path(me.param("requirements")))
    while me.reuse():
        fields = products = 0
        for field in me.objects("fields"):
            key = field["param"], field.get("levelist", 0), field["step"], field["number"]
            requests = wanted.get(key, ())
            for request in requests:
                deliver(me, request, generation.make(request, field.data, grid_of(field)), field)
            fields += 1
            products += len(requests)
        print(f"{products} products of {fields} fields")
