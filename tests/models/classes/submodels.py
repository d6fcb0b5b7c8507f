"""Two submodels as classes: one method per operator."""

import numpy as np

import xmml


class Sender(xmml.Submodel):
    """Sends a matrix in every step."""

    def f_init(self) -> None:
        self.matrix = np.array([[2.0, 1.0], [3.0, 2.0]])

    def O_i(self) -> None:
        self.me.send("data", self.matrix)


class Printer(xmml.Submodel):
    """Prints every matrix, a column on a line."""

    def S(self) -> None:
        for column in self.me.receive("data").data.T:
            print("(" + "".join(f"{number}\t" for number in column.tolist()) + ")")
