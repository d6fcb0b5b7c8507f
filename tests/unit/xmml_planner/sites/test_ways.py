"""The ways between the sites of a catalogue."""

from __future__ import annotations

from xmml_planner.sites import sites_from_text
from xmml_planner.sites.ways import Ways

CLUSTER = '[site.alpha]\nssh = "alpha"\ncores = 4\n'
BETA = '[site.beta]\nssh = "beta"\ncores = 4\n'


def parts(count: int) -> str:
    """Return so many parts of the cluster."""
    return "".join(f'[site.p{number}]\nlike = "alpha"\n' for number in range(count))


def test_hops_between_relays_grow_with_the_parts_of_a_cluster_and_not_with_their_square() -> None:
    assert len(Ways(sites_from_text(CLUSTER + parts(40)))._hops.edges) <= 2 * 42  # to the cluster, and to this machine


def test_messages_between_parts_go_directly_also_if_only_by_relay() -> None:
    ways = Ways(sites_from_text(CLUSTER + parts(2)))
    for only, method in (((), "tcp"), (("relay",), "relay")):
        way = ways.way("p0", "p1", only=only)
        assert way is not None
        assert (way.sites, way.method) == (("p0", "p1"), method)


def test_a_part_with_a_link_of_its_own_forwards_for_the_others_of_its_cluster() -> None:
    link = '[[link]]\nbetween = ["p0", "beta"]\nlatency = "1 us"\n'
    listens = '[site.beta.relay]\nlisten = "beta:1"\n'
    way = Ways(sites_from_text(CLUSTER + parts(2) + BETA + listens + link)).way("p1", "beta")
    assert way is not None
    assert way.sites == ("p1", "p0", "beta")
