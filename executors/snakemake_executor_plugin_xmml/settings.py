"""What `snakemake --executor xmml` can be told: the options `--xmml-...`.

Snakemake looks at the types of the fields when it runs, and knows `Optional` only.
"""

from dataclasses import field
from pathlib import Path
from typing import Optional

from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from xmml.late_dataclass import dataclass


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Settings of the executor."""

    sites: Optional[Path] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "sites.toml: where coupled models are placed and other rules may run; without it everything "
            "runs on this machine",
            "env_var": False,
            "required": False,
        },
    )
    runs: Path = field(
        default=Path(".snakemake/xmml/runs"),
        metadata={
            "help": "Folder of the runs of coupled models whose rule names none with -o; the folder of a run is "
            "removed when its job has succeeded, see --xmml-keep-runs",
            "env_var": False,
            "required": False,
        },
    )
    keep_runs: bool = field(
        default=False,
        metadata={
            "help": "Keep the folders of runs that have succeeded",
            "env_var": False,
            "required": False,
        },
    )
    options: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "Further options of xmml-run for every coupled run, e.g. '--max-cost 10 --place picture=laptop'",
            "env_var": False,
            "required": False,
        },
    )


#: What Snakemake wants to know of an executor before it exists.
COMMON_SETTINGS = CommonSettings(
    non_local_exec=True,
    # Rules run on this machine, or the executor takes their files to a site and back itself.
    implies_no_shared_fs=False,
    can_transfer_local_files=True,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=True,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=0,
)
