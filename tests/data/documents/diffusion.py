"""Stands for the program of a model that is only read and checked."""
