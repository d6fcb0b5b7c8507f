"""Measured links come back into a file of sites without disturbing anything else in it."""

from xmml_planner.sites import sites_from_text
from xmml_sites.check import LinkReport, Verdict, with_links

SITES = '[site.a]  # the first\nssh = "a"\ncores = 1\n\n[site.b]\nssh = "b"\ncores = 1\n'


def link(*between, latency_s=0.005, bandwidth=1.25e8):
    return LinkReport(between, Verdict.OK, "", latency_s, bandwidth)


def test_a_new_link_is_added_at_the_end():
    text = with_links(SITES, [link("a", "b")])
    assert text.startswith(SITES)
    found = sites_from_text(text).links[0]
    assert (set(found.between), found.latency_s, found.bandwidth) == ({"a", "b"}, 0.005, 1.25e8)


def test_a_link_that_is_there_is_changed_and_keeps_its_comments_and_other_values():
    before = SITES + '[[link]]\nbetween = ["b", "a"]\nlatency = "1 s"   # a guess\nstreams = 7 # so many\n'
    text = with_links(before, [link("a", "b")])
    assert 'latency = "5 ms"' in text
    assert "# a guess" in text
    assert "streams = 7 # so many\n" in text
    assert text.count("[[link]]") == 1
    assert sites_from_text(text).links[0].streams == 7


def test_several_new_links_are_added_to_those_that_are_there():
    sites = SITES + '[site.c]\nssh = "c"\ncores = 1\n[[link]]\nbetween = ["a", "b"]\n'
    text = with_links(sites, [link("a", "c"), link("b", "c", latency_s=2e-5, bandwidth=2e9)])
    found = {frozenset(each.between): each for each in sites_from_text(text).links}
    assert len(found) == 3
    assert found[frozenset("bc")].latency_s == 2e-5
    assert found[frozenset("bc")].bandwidth == 2e9


def test_what_was_not_measured_is_not_written():
    assert with_links(SITES, [LinkReport(("a", "b"), Verdict.FAILED, "closed")]) == SITES
