"""Random models in the notation of `small_models`: calling, interacting, with mappers, filters, copies, sources."""

from __future__ import annotations

import random

FILTERS = ["drop 2", "drop 3", "sum 2", "mean 3", "repeat 2", "repeat 3", "extrapolate 2", "lineartimeinterpolation 2"]
FILTERS += ["lineartimeinterpolation 3", "last", "converter", "interpolation 2", "reduction 2", "sum 2 | repeat 2"]


def random_text(seed: int) -> str:
    """A model of two to seven instances whose couplings often, but not always, fit together."""
    return _Writer(random.Random(seed)).text()


class _Writer:
    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.lines: list[str] = []
        self.couplings: list[str] = []
        self.submodels: list[str] = []
        self.mappers = 0
        self.steps: dict[str, int] = {}

    def text(self) -> str:
        choose = self.choose
        common = choose.randint(1, 4)
        for number in range(choose.randint(2, 5)):
            name = f"i{number}"
            self.steps[name] = common if choose.random() < 0.6 else choose.randint(1, 6)
            words = [name, str(self.steps[name])]
            words += ["init"] * (choose.random() < 0.3) + ["stateful"] * (choose.random() < 0.2)
            self.lines.append(" ".join(words))
            self.submodels.append(name)
        if choose.random() < 0.2:
            self.ring()
        for _ in range(choose.randint(1, 4)):
            self.relation()
        if choose.random() < 0.15:
            self.copies()
        if choose.random() < 0.15:
            self.source()
        return "\n".join([*self.lines, *self.couplings])

    def relation(self) -> None:
        choose = self.choose
        one, other = choose.sample(self.submodels, 2)
        kind = choose.random()
        if kind < 0.35:
            self.couple(one, "Oi", other, "finit")
            self.couple(other, "Of", one, choose.choice("SB"))
        elif kind < 0.65:
            self.couple(one, "Oi", other, "S")
            self.couple(other, "Oi", one, choose.choice("SB"))
        elif kind < 0.75:
            self.couple(one, "Of", other, "finit")
        elif kind < 0.8:
            self.couplings.append(f"{one}.Of -> {one}.finit state")
        else:
            receiver = choose.choice(self.submodels)
            self.couple(one, choose.choice(["Oi", "Of"]), receiver, choose.choice(["finit", "S", "B"]))

    def ring(self) -> None:
        """A circle of couplings of any templates."""
        choose = self.choose
        ring = choose.sample(self.submodels, len(self.submodels))
        for one, other in zip(ring, ring[1:] + ring[:1], strict=True):
            ends = choose.choice([("Oi", "S"), ("Oi", "S"), ("Of", "finit"), ("Oi", "finit"), ("Of", "B")])
            self.couplings.append(f"{one}.{ends[0]} -> {other}.{ends[1]}")

    def couple(self, sender: str, sends: str, receiver: str, receives: str) -> None:
        choose = self.choose
        filters = f" | {choose.choice(FILTERS)}" if choose.random() < 0.15 else ""
        if choose.random() < 0.2:
            mapper = f"m{self.mappers}"
            self.mappers += 1
            self.lines.append(f"{mapper} mapper")
            self.couplings.append(f"{sender}.{sends} -> {mapper}{filters}")
            self.couplings.append(f"{mapper} -> {receiver}.{receives}")
            if choose.random() < 0.3:
                self.couplings.append(
                    f"{choose.choice(self.submodels)}.{choose.choice(['Oi', 'Of'])} -> {mapper}.second"
                )
        else:
            self.couplings.append(f"{sender}.{sends} -> {receiver}.{receives}{filters}")

    def copies(self) -> None:
        """Several copies of a submodel, called or interacting through mappers."""
        choose = self.choose
        owner = choose.choice(self.submodels)
        called = choose.random() < 0.6
        self.lines += [f"c {self.steps[owner]} x{choose.randint(2, 3)}", "there mapper", "back mapper"]
        self.couplings += [
            f"{owner}.Oi -> there",
            f"there -> c.{'finit' if called else 'S'}",
            f"c.{'Of' if called else 'Oi'} -> back",
            f"back -> {owner}.S",
        ]

    def source(self) -> None:
        choose = self.choose
        repeat = choose.random() < 0.5
        receiver = choose.choice(self.submodels)
        self.lines.append(f"source source{' repeat=yes' if repeat else ''}")
        self.couplings.append(f"source -> {receiver}.{'S' if repeat or choose.random() < 0.5 else 'finit'}")
