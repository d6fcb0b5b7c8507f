"""The checks of a model document, one function each.

A check gets the index of a document and yields problems. It says nothing about what another check or the schema
reports: an unknown reference, for example, is told once, where it stands, and everything that depends on it is passed
over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from xmml.checks import (
    attributes,
    classes,
    couplings,
    datatypes,
    deaths,
    decompositions,
    extent,
    filters,
    formula_syntax,
    identity,
    implementations,
    instances,
    latest,
    open_ports,
    outside,
    pools,
    ports,
    quantities,
    references,
    scales,
    unused,
)
from xmml.checks.index import Index
from xmml.document import Document
from xmml.problems import MOST_PROBLEMS, Problem

#: The checks that need nothing but the document.
DOCUMENT_CHECKS: tuple[Callable[[Index], Iterable[Problem]], ...] = (
    attributes.unknown_attributes,
    attributes.run_settings,
    attributes.namespace_of_run_settings,
    identity.duplicate_definitions,
    identity.duplicate_instances,
    identity.duplicate_ports,
    identity.duplicate_params,
    identity.dotted_ids,
    instances.one_kind_each,
    instances.multiplicity_and_state,
    instances.single_copies,
    references.definitions_of_instances,
    references.datatypes_of_ports,
    references.applied_filters,
    references.ends_of_couplings,
    datatypes.extension,
    datatypes.fitting_datatypes,
    ports.operator_fits_direction,
    ports.no_operator_outside_submodels,
    ports.ports_of_mappers,
    ports.ports_of_terminals,
    couplings.direction,
    couplings.operators_of_coupled_ports,
    couplings.one_sender_per_in_port,
    couplings.copies_are_addressed,
    couplings.one_number_of_copies,
    decompositions.dimensions_exist,
    decompositions.parts_are_ranks,
    decompositions.filters_work_on_parts,
    open_ports.not_coupled,
    open_ports.of_programs,
    pools.attributes_can_be_read,
    pools.possible_pools,
    deaths.without_dependants,
    latest.waits_in_circles,
    implementations.cores_agree,
    implementations.parts_of_code,
    implementations.code_compiles,
    implementations.known_languages,
    outside.staged_files,
    classes.known_classes,
    classes.parameters_of_terminals,
    filters.known_dimensions,
    quantities.units,
    quantities.without_unit,
    formula_syntax.formulas,
    scales.duplicate_scales,
    scales.given_twice,
    scales.possible_values,
    scales.whole_steps,
    extent.copies,
    extent.run_times,
    unused.unconnected,
    unused.unused_definitions,
)


def document_problems(document: Document) -> list[Problem]:
    """Return what all document checks find."""
    index = Index(document)
    return [problem for check in DOCUMENT_CHECKS for problem in islice(check(index), MOST_PROBLEMS)]
