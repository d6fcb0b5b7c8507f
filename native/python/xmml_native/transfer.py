"""The two ends of a copy of files, the exception that they raise, and the version of what they say to each other."""

from xmml_native._native import COPY_VERSION, CopyFailure, CopySource, CopyTarget

__all__ = ["COPY_VERSION", "CopyFailure", "CopySource", "CopyTarget"]
