"""Whether what programs in images need is at a site: told before a job waits in a queue for nothing."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from xmml_planner import Plan
from xmml_planner.planning import is_below
from xmml_planner.programs import CONTAINER_PROGRAMS, container_command
from xmml_planner.sites import Site
from xmml_sites.environment import environment_as_it_works

from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.outcome import SiteError

#: Modules and lines of the setup may take their time.
ANSWERS_WITHIN_S = 120.0
_NO_IMAGE, _NO_PROGRAM, _INSTEAD = "xmml-no-image", "xmml-no-container-program", "xmml-there-is"


async def check_images(site: RunSite, parts: Collection[str], plan: Plan) -> None:
    """Look, in the environment that programs have there, for what starts programs in images, and for the images that
    are not staged.

    Raises:
        SiteError: something is missing.
        TransportError: the site cannot be reached.
    """
    for name in sorted(parts):
        images = {each.image for each in plan.instances if each.site == name and each.image}
        if images:
            part = next(each for each in plan.sites if each.name == name)
            outside = sorted(image for image in images if not is_below(image, plan.model_folder))
            await _check(site, part, outside)


async def _check(site: RunSite, part: Site, images: list[str]) -> None:
    program = container_command(part.container or CONTAINER_PROGRAMS[0], "", has_gpus=False)[0]
    others = " ".join(each for each in CONTAINER_PROGRAMS if each != program)
    look = [
        f"command -v {shlex.quote(program)} >/dev/null || {{ echo {_NO_PROGRAM}; "
        f"for p in {others}; do command -v $p >/dev/null && echo {_INSTEAD} $p; done; }}",
        *(f"[ -e {shlex.quote(image)} ] || echo {_NO_IMAGE} {shlex.quote(image)}" for image in images),
    ]
    text = environment_as_it_works(part) + "\n".join(look)
    answer = await site.transport.run(f"{site.shell} {shlex.quote(text)}", timeout_s=ANSWERS_WITHIN_S)
    told = dict(line.partition(" ")[::2] for line in reversed(answer.stdout.splitlines()))
    if _NO_PROGRAM in told:
        instead = f'set container = "{told[_INSTEAD]}"' if _INSTEAD in told else "name a module that has it (modules)"
        raise SiteError(
            f"{part.name} has no {program}, which starts programs in images (run:image): {instead}, "
            "or set container = to the program that does"
        )
    if _NO_IMAGE in told:
        raise SiteError(
            f"the image {told[_NO_IMAGE]} is not at {part.name}: put it there, or into the folder of the model, from "
            "which it is brought there"
        )
