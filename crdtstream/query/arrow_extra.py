"""The extra ``query`` of the package: Arrow, in which a node sends entries to Spark.

It is larger than all other packages of a node together, and most nodes serve Redis clients only.
"""

from importlib.util import find_spec
from typing import Final

NO_ARROW: Final = "pyarrow is not installed here; pip install 'crdtstream[query]'"


def is_arrow_installed() -> bool:
    return find_spec("pyarrow") is not None
