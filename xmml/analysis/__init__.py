"""What a model will do, worked out before it runs: pure functions from a model to values.

`network` is what most analyses start from: the model as processes and first-in-first-out channels.
"""
