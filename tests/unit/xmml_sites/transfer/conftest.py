"""Files to copy."""

from copied_tree import tree as tree
