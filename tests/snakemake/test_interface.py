"""The test kit that the interface of executor plugins brings along."""

from snakemake.common.tests import TestWorkflowsLocalStorageBase
from snakemake_executor_plugin_xmml import ExecutorSettings
from snakemake_interface_executor_plugins.settings import ExecutorSettingsBase


class TestInterface(TestWorkflowsLocalStorageBase):
    """Simple and grouped jobs, as the interface wants them."""

    __test__ = True

    def get_executor(self) -> str:
        return "xmml"

    def get_executor_settings(self) -> ExecutorSettingsBase:
        return ExecutorSettings()
