"""numpy calls as mypy would type them through a variable, where the place they are written in makes it choose Any.

In `return {"w": np.zeros((3,), np.float64)}` the expected dtype[float32] refutes the overload for type[float64], and
the last overload, which returns dtype[Any], fits every place. So: infer the call again with nothing expected.
"""

from typing import Final

import numpy as np
from mypy.nodes import Expression, ListExpr, MypyFile, StarExpr, StrExpr, TupleExpr, TypeAlias, TypeInfo
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import AnyType, CallableType, Instance, Type, UnionType, get_proper_type

_ARRAY: Final = "numpy.ndarray"
_PYTHON: Final = {"builtins.bool": "bool", "builtins.float": "float64", "builtins.complex": "complex128"}
