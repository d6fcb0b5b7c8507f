"""Tests over an ssh server of their own."""

from copied_tree import tree as tree
