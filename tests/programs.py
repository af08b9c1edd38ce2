"""Programs of the tree that stand in no package, such as those of ``tools``, as modules."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


def module_at(path: Path) -> Any:
    """The module in a file, run once for each call; its name is that of the file."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Data classes look their module up.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
