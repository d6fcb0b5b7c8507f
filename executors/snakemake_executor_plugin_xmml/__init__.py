"""The executor plugin of xMML for Snakemake: `snakemake --executor xmml --xmml-sites sites.toml`.

A rule whose shell command is `xmml-run MODEL ...` is a coupled run: it is co-allocated over the sites of the catalogue.
Snakemake finds this module by its name; the names below are what it looks for.
"""

from snakemake_executor_plugin_xmml.executor import Executor as Executor
from snakemake_executor_plugin_xmml.settings import COMMON_SETTINGS as common_settings  # noqa: N811 - the name Snakemake looks for
from snakemake_executor_plugin_xmml.settings import ExecutorSettings as ExecutorSettings

__all__ = ["Executor", "ExecutorSettings", "common_settings"]
