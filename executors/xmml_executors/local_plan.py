"""The part of a plan that is carried out on this machine."""

from __future__ import annotations

from dataclasses import replace

from xmml_planner import Plan


def here(plan: Plan) -> Plan:
    """Return the plan with builds and instances of this machine only; a plan without sites is all here."""
    elsewhere = {site.name for site in plan.sites if not site.is_here or site.has_queue}
    if not elsewhere:
        return plan
    instances = tuple(each for each in plan.instances if each.site not in elsewhere)
    names = {each.name for each in instances}
    builds = tuple(
        each
        for each in plan.builds
        if each.site not in elsewhere and (each.site or any(name in names for name in each.instances))
    )
    return replace(plan, instances=instances, builds=builds)
