"""Making the programs of a plan at the sites that run them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection

from xmml_planner import Build, Plan

from xmml_executors.launch.run_site import RunSite
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import RunFolder

#: A build that takes longer is ended.
BUILD_WITHIN_S = 3600.0


def builds_at(plan: Plan, sites: Collection[str]) -> list[Build]:
    """Return the builds of sites that share their files, each command once."""
    at = {instance.name: instance.site for instance in plan.instances}
    found = [
        build
        for build in plan.builds
        if build.site in sites or (not build.site and any(at.get(name) in sites for name in build.instances))
    ]
    return list({build.command: build for build in reversed(found)}.values())[::-1]


async def build_at(
    site: RunSite, parts: Collection[str], plan: Plan, folder: RunFolder, tell: Callable[[str], None]
) -> None:
    """Run the builds of a site and its parts on its login node, one after the other, in the folder of the model there.

    Raises:
        SiteError: one failed; its output is in the run's folder.
        TransportError: the site cannot be reached.
    """
    setup = [*(f"module load {shlex.quote(module)}" for module in site.site.modules), *site.site.setup]
    setup += [f"export {name}={shlex.quote(value)}" for name, value in site.site.env.items()]
    setup.append(f'export PATH="$(dirname "$(command -v {shlex.quote(site.python)})"):$PATH"')
    for number, build in enumerate(builds_at(plan, parts), 1):
        tell(f"{site.name}: building: {build.command}")
        lines = [*setup, f"cd {shlex.quote(site.folder + '/model')}", build.command]
        text = " && ".join(line for line in lines if line)
        done = await site.transport.run(f"bash -lc {shlex.quote(text)} 2>&1", timeout_s=BUILD_WITHIN_S)
        log = folder.path / "builds" / f"{site.name}-{number}.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text(done.stdout, encoding="utf-8")
        if done.status != 0:
            raise SiteError(
                f"{build.instances[0]}: its build at {site.name}, {build.command}, ended with exit status "
                f"{done.status}: {done.said}; see {log}"
            )
