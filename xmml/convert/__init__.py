"""Models in other formats: CxA of MUSCLE 2, yMMSL of MUSCLE3, and xMML documents rewritten as they are.

Nothing is lost in silence: every conversion returns, beside the text, notes on what the other format cannot say.
"""
