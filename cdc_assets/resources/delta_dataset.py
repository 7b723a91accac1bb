"""A Delta table's files as a PyArrow dataset, read without Python on the way.

delta-rs gives PyArrow a file system that is written in Python. PyArrow's threads close files through it for a while after the
last row was handed over. Where the interpreter ends meanwhile, they call into it and the process aborts ("terminate called
without an active exception"): 17 of 60 reads of a table of six files ended so, with exit code -6 after the right output
(delta-io/delta-rs#2184). PyArrow's own file system does not need the interpreter: 0 of 60.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark.lake.place import is_object
from spark.lake.store_options import arrow_filesystem


def open_dataset(table: Any, path: str) -> Any:
    """The dataset of an opened Delta table that lies at `path`, at its version."""
    place = path if is_object(path) else str(Path(path).absolute())
    return table.to_pyarrow_dataset(filesystem=arrow_filesystem(place))
