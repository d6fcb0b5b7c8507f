"""The Python API of xMML: what a submodel, mapper or terminal sees of the run it is part of.

>>> import xmml_native
>>> with xmml_native.Instance.alone(ports={"state": "Oi"}, steps=2) as me:
...     while me.reuse():
...         for t in me.steps():
...             ok = me.send("state", 10.0 * t)
>>> [message.data for message in me.outputs["state"]]
[0.0, 10.0]

Users write ``import xmml``, which offers the same names. Importing this package is cheap: numpy and the language
package are imported when the first array arrives or a model file is read.
"""

from xmml_native._native import (
    Coordinator,
    Group,
    InPort,
    Message,
    Object,
    OutPort,
    __version__,
    threads_can_have_folders,
)
from xmml_native.errors import (
    DataTypeError,
    EndedError,
    Error,
    NotInARunError,
    OrderError,
    ParameterError,
    PortError,
    ReceiveTimeoutError,
    RunAborted,
)
from xmml_native.handle import Handle
from xmml_native.instance import Instance
from xmml_native.submodel import Mapper, Submodel

__all__ = [
    "Coordinator",
    "DataTypeError",
    "EndedError",
    "Error",
    "Group",
    "Handle",
    "InPort",
    "Instance",
    "Mapper",
    "Message",
    "NotInARunError",
    "Object",
    "OrderError",
    "OutPort",
    "ParameterError",
    "PortError",
    "ReceiveTimeoutError",
    "RunAborted",
    "Submodel",
    "__version__",
    "threads_can_have_folders",
]
