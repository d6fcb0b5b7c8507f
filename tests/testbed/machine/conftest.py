"""Whole runs under control of the machine."""

from faulty_models import models as models
