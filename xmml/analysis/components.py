"""Strongly connected components of a graph of numbered vertices."""

from __future__ import annotations

from collections.abc import Sequence


def components(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected components of a graph, successors first.

    Tarjan, "Depth-first search and linear graph algorithms", 1972, without recursion. Linear in vertices and edges.
    """
    size = len(successors)
    index, low = [0] * size, [0] * size
    on_stack = bytearray(size)
    stack: list[int] = []
    found: list[list[int]] = []
    counter = 0
    for root in range(size):
        if index[root]:
            continue
        counter += 1
        index[root] = low[root] = counter
        stack.append(root)
        on_stack[root] = 1
        path = [(root, iter(successors[root]))]
        while path:
            vertex, remaining = path[-1]
            for other in remaining:
                if not index[other]:
                    counter += 1
                    index[other] = low[other] = counter
                    stack.append(other)
                    on_stack[other] = 1
                    path.append((other, iter(successors[other])))
                    break
                if on_stack[other] and index[other] < low[vertex]:
                    low[vertex] = index[other]
            else:
                path.pop()
                if path and low[vertex] < low[path[-1][0]]:
                    low[path[-1][0]] = low[vertex]
                if low[vertex] == index[vertex]:
                    component = []
                    while True:
                        other = stack.pop()
                        on_stack[other] = 0
                        component.append(other)
                        if other == vertex:
                            break
                    found.append(component)
    return found
