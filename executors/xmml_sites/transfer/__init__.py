"""Copying files between this machine and another, in ranges with checksums, over parallel streams.

Two ends exchange messages over a channel: a *source* lists and reads, a *target* compares and writes. Both are the
crate `native/transfer`; which of them is here and which is at the other end of an ssh connection makes no difference to
them. Here is what starts them, and the way between them. `copy.copy` is what a program calls.
"""
