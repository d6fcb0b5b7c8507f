"""Pictures and graphs of a model: how it is coupled, what happens when, its domains and its scales.

Each view is a pure function from a model to a graph (networkx) and to a drawing; `views` knows them all, `render` turns
drawings into files.
"""
