"""Creates a tiny Delta table through Spark Connect, merges into it, and has a task run Python.

Arguments: the remote, a folder to use.
The token is in the environment, where PySpark looks for it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


def main() -> None:
    """Exit 0 when the merged table holds what it must."""
    from spark.table.spark_plans import suit
    from spark.table.spark_session import connect, leave, task_session_id

    remote, folder = sys.argv[1:]
    session = connect(remote)
    suit(session, events=6)
    session.sql(f"CREATE TABLE delta.`{folder}` USING delta AS SELECT id, 'old' AS text FROM range(3)")
    session.sql(
        f"MERGE INTO delta.`{folder}` AS t USING (SELECT id, 'new' AS text FROM range(2, 5)) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    rows = session.sql(f"SELECT count(*), count_if(text = 'new') FROM delta.`{folder}`").collect()
    if tuple(rows[0]) != (5, 3):
        sys.exit(f"merged 3 rows into 3 with one in common; found {tuple(rows[0])} instead of (5, 3)")
    session.stop()
    session = connect(remote, session_id=task_session_id())
    seen = session.range(1).mapInArrow(lambda batches: batches, "id bigint").collect()
    if [row.id for row in seen] != [0]:
        sys.exit(f"a task in Python gave {seen} instead of one row")
    leave(session)


if __name__ == "__main__":
    main()
