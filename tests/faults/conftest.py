"""Runs with something wrong."""

from faulty_models import models as models
