"""Stands for the program of a model that is only checked."""
