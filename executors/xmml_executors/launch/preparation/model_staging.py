"""The model's files, and the images of its programs, at a site."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from xmml_planner import Plan
from xmml_planner.summary import counted

from xmml_executors.executor import Tell
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.launch.site.staging import built_files, hash_files_in_thread, images_at, patterns_for


async def stage_model(site: RunSite, parts: Collection[str], plan: Plan, tell: Tell) -> None:
    """Bring a site what its instances need and it does not have; a site that sees the files here gets a link.

    Args:
        site: where to.
        parts: the parts of the site that have jobs.
        plan: of the run.
        tell: tells people how much was brought.

    Raises:
        TransportError, SiteError: it did not work.
    """
    if site.shares_files:
        await site.link_model(plan.model_folder)
        return
    files = await hash_files_in_thread(Path(plan.model_folder), patterns_for(plan, parts), built_files(plan, parts))
    staged = await site.stage(files, images_at(plan, parts))
    tell(
        f"{counted(staged['files'], 'file')} staged, {staged['sent_files']} of them sent "
        f"({staged['sent_bytes']:,} bytes)",
        site.name,
    )
