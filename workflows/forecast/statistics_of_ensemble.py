"""Makes the products of the whole ensemble, of the fields of all members as they come."""

from pathlib import Path

import requirements
from delivery import deliver, grid_of
from generation import Ensemble

import xmml

with xmml.Instance() as me:
    wanted = requirements.read(Path(me.param("requirements")))
    while me.reuse():
        products = 0
        waiting: dict[requirements.Key, Ensemble] = {}
        for field in me.objects("fields"):
            key = field["param"], field.get("levelist", 0), field["step"], None
            if key not in wanted:
                continue
            ensemble = waiting.setdefault(key, Ensemble(wanted[key], field["total"]))
            if not ensemble.add(field.data):
                continue
            for request in ensemble.requests:
                deliver(me, request, ensemble.make(request, grid_of(field)), field)
            products += len(ensemble.requests)
            del waiting[key]
        print(f"{products} products of the ensemble")
