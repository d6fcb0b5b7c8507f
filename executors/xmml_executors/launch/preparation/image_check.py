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
#: Printed last: without it nothing of what is not there is known.
_LOOKED = "xmml-has-looked"


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
        f"echo {_LOOKED}",
    ]
    text = environment_as_it_works(part) + "\n".join(look)
    answer = await site.transport.run(f"{site.shell} {shlex.quote(text)}", timeout_s=ANSWERS_WITHIN_S)
    lines = [line.partition(" ")[::2] for line in answer.stdout.splitlines()]
    told = dict(reversed(lines))
    if _LOOKED not in told:
        raise SiteError(
            f"what programs in images need cannot be looked for at {part.name}, because the shell there ends before: "
            f"{answer.said}; check setup and modules of the site, and the files that a login shell reads there"
        )
    if _NO_PROGRAM in told:
        instead = f'set container = "{told[_INSTEAD]}"' if _INSTEAD in told else "name a module that has it (modules)"
        raise SiteError(
            f"{part.name} has no {program}, which starts programs in images (run:image): {instead}, "
            "or set container = to the program that does"
        )
    missing = [image for what, image in lines if what == _NO_IMAGE]
    if missing:
        are, them = ("image {} is", "it") if len(missing) == 1 else ("images {} are", "them")
        raise SiteError(
            f"the {are.format(', '.join(missing))} not at {part.name}: put {them} there, or into the folder of the "
            f"model, from which {them} {'is' if them == 'it' else 'are'} brought there"
        )
