"""Whole runs that somebody attacks."""

from faulty_models import models as models
