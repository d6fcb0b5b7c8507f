"""Attributes of objects and selectors over them, as programs and checks compile them."""

from xmml_native._native import AttributeSchema, Selector, selector_variables

__all__ = ["AttributeSchema", "Selector", "selector_variables"]
