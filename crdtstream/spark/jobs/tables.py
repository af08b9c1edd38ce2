"""Tables of a report, put in the place of those of an earlier one.

    _draft-…/lag/part-….parquet      all tables, written and read back
    lag/part-….parquet  →  _replaced-…/lag/…          then, table by table, the old files move out
    _draft-…/lag/part-…  →  lag/part-….parquet        and the new ones move in

The old files are removed when all new ones stand in their places.  A program that is killed leaves
``_draft-…`` or ``_replaced-…``, which readers ignore, as their names begin with ``_``; the next
report is whole again.
"""

import uuid
from collections.abc import Mapping

from pyspark.sql import DataFrame

from crdtstream.spark.jobs.folder import Folder
from crdtstream.spark.jobs.read_back import write_parquet


def replace_tables(folder: Folder, tables: Mapping[str, DataFrame]) -> None:
    """Write tables as Parquet, each to the folder of its name.

    Raises:
        NotReadBackError: a table is not there as it was written; the old ones are all there.
    """
    number = uuid.uuid4().hex
    draft, replaced = f"_draft-{number}", f"_replaced-{number}"
    try:
        for name, table in tables.items():
            write_parquet(table, folder, f"{draft}/{name}")
    except BaseException:
        folder.delete(draft)
        raise
    folder.sync(draft)
    for name in tables:
        for file in folder.files(name):
            folder.replace(file.path, f"{replaced}/{file.path}")
        for file in folder.files(f"{draft}/{name}"):
            folder.replace(file.path, file.path.removeprefix(f"{draft}/"))
    folder.delete(draft)
    folder.delete(replaced)
