"""JSON objects by Arrow: a table of those fields that are asked for, in the types that are asked for, or nothing at all."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from spark.errors import LeftToSparkError

_BLOCK = 1 << 20


def parse_objects(texts: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    """The fields of `schema` of each text; one that is not there is null, others are left out.

    Raises:
        LeftToSparkError: a text is no single JSON object, or has a field of another type.
    """
    documents = texts.to_pylist()
    if not documents:
        return schema.empty_table()
    # Arrow ends the process at a document that is no object, such as `null` (pyarrow 25.0).
    if not pc.all(pc.starts_with(texts, b"{").fill_null(False)).as_py():
        raise LeftToSparkError("a record that is no JSON object")
    try:
        found = pj.read_json(
            pa.BufferReader(b"\n".join(documents)),
            read_options=pj.ReadOptions(use_threads=False, block_size=max(_BLOCK, 2 * max(map(len, documents)))),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid as error:
        raise LeftToSparkError(f"a record that has other fields: {str(error)[:200]}") from error
    if found.num_rows != len(documents):
        raise LeftToSparkError("a record that is no single JSON object")
    return found.select(schema.names).combine_chunks()
