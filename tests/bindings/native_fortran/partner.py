"""Doubles a matrix that a Fortran program sends, with numpy's indices; answers in the order that the argument says."""

import sys

import numpy as np

import xmml

with xmml.Instance() as me:
    while me.reuse():
        a = me.receive("in").data
        assert a.flags.f_contiguous, "an array of Fortran arrives as it lay there"
        assert [[int(a[i, j]) for j in range(3)] for i in range(2)] == [[11, 12, 13], [21, 22, 23]]
        for _ in me.steps():
            pass
        me.send("out", np.asarray(2 * a, order=sys.argv[1]))
