"""Calls the micro model with a matrix in every step, and takes over what it returns for the first element."""

import numpy as np

import xmml

with xmml.Instance() as me:
    while me.reuse():
        matrix = np.array([[2.0, 1.0], [3.0, 2.0]])
        for _ in me.steps():
            me.send("macroObs", matrix)
            matrix[0, 0] = me.receive("microObs").data
            print(matrix[0, 0].item())
