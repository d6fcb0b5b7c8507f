"""Domains: the tree, and which node and edge belongs where."""

from __future__ import annotations

import pytest
from small_models import model

from xmml.analysis.domains import ancestors, domains, kind_of_coupling, lowest_common

ARTERY = model(
    """
    ic 1
    bf 1 domain=artery.blood
    smc 1 domain=artery.tissue
    dd 1 domain=artery.tissue
    leaf 1 domain=vein.tissue
    ic.Of -> smc.finit
    bf.Of -> smc.S
    smc.Oi -> dd.finit
    dd.Of -> leaf.finit
    """
)


def test_domains_are_full_paths_parents_first() -> None:
    assert list(domains(ARTERY)) == ["", "artery", "artery.blood", "artery.tissue", "vein", "vein.tissue"]


def test_the_root_is_called_none_and_leaves_by_their_last_part() -> None:
    assert [domain.name for domain in domains(ARTERY).values()] == [
        "None",
        "artery",
        "blood",
        "tissue",
        "vein",
        "tissue",
    ]


def test_the_tree_joins_parents_and_children() -> None:
    found = domains(ARTERY)
    assert found[""].children == ("artery", "vein")
    assert found["artery"].children == ("artery.blood", "artery.tissue")
    assert found["artery.tissue"].children == ()


def test_every_instance_is_in_its_own_domain_and_every_coupling_in_the_lowest_that_holds_both_ends() -> None:
    found = domains(ARTERY)
    assert {path: domain.instances for path, domain in found.items() if domain.instances} == {
        "": ("ic",),
        "artery.blood": ("bf",),
        "artery.tissue": ("smc", "dd"),
        "vein.tissue": ("leaf",),
    }
    assert {path: domain.couplings for path, domain in found.items() if domain.couplings} == {
        "": (0, 3),
        "artery": (1,),
        "artery.tissue": (2,),
    }


def test_a_model_without_domains_is_all_root() -> None:
    found = domains(model("a 1\nb 1\na.Of -> b.finit"))
    assert list(found) == [""]
    assert (found[""].instances, found[""].couplings) == (("a", "b"), (0,))


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("a.b", "a.c", "a"),
        ("a.b", "a.b", "a.b"),
        ("a", "a.b", "a"),
        ("ab", "a", ""),
        ("", "a.b", ""),
        ("a.b.c", "a.x.c", "a"),
    ],
)
def test_the_lowest_common_domain_compares_whole_parts(one: str, other: str, common: str) -> None:
    assert lowest_common(one, other) == common


def test_ancestors_end_at_the_root() -> None:
    assert ancestors("a.b.c") == ["a.b", "a", ""]
    assert ancestors("") == []


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("bf", "smc", "multi-domain"),
        ("smc", "dd", "single-domain"),
        ("ic", "smc", "single-domain"),
        ("dd", "leaf", "multi-domain"),
    ],
)
def test_one_domain_inside_the_other_is_a_single_domain(one: str, other: str, kind: str) -> None:
    assert kind_of_coupling(ARTERY.instances[one], ARTERY.instances[other]) == kind
