"""Random models with random run times, capacities and travel times."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from random_models import random_model
from random_networks import random_text
from small_models import model

from xmml.analysis.network import Network, network


@dataclass(frozen=True)
class Timing:
    """A network with times, and how to say which."""

    words: str
    network: Network
    capacities: tuple[int, ...]
    delays: tuple[int, ...]


def random_timing(seed: int) -> Timing:
    """Return the model of a seed, by turns of the two kinds of random models; every third one with travel times.

    Many run times are small multiples of the same unit, so that things happen at the same moment.
    """
    choose = random.Random(seed)
    if seed % 2:
        made = random_model(seed)
        text, net = made.text, network(made.model, made.fires)
    else:
        text = random_text(seed)
        net = network(model(text))
    lengths = [choose.choice([1, 1, 1, 4, 30]) for _ in net.by_instance] if choose.random() < 0.3 else []
    processes = []
    for process in net.processes:
        longer = lengths[list(net.by_instance).index(process.instance)] if lengths else 1
        steps = process.steps * (longer if process.oi or process.s or process.b else 1)
        runtime = choose.choice([0, 1, 2, 3, 5, 7, 12]) * steps + choose.choice([0, 0, 0, 1])
        processes.append(replace(process, steps=steps, runtime_ns=runtime))
    net = replace(net, processes=tuple(processes))
    capacities = tuple(choose.choice([1, 1, 2, 3, 16, 10**6]) for _ in net.channels)
    delays = tuple(choose.choice([0, 0, 1, 4, 11]) if seed % 3 == 0 else 0 for _ in net.channels)
    return Timing(
        f"seed {seed}\n{text}\n{[(p.name, p.steps, p.runtime_ns) for p in processes]}\n{capacities}\n{delays}",
        net,
        capacities,
        delays,
    )
