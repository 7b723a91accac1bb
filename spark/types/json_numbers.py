"""Numbers of a JSON text as they are written, where Spark's parser would make another number of them.

Jackson copies what is inside a document, and each number for a text, by a double: 0.12345678901234567890 becomes
0.12345678901234568, and 1e400 the text "Infinity" (Spark 4.0.4, JacksonParser and JsonGenerator.copyCurrentStructure). So
numbers that a double may not hold become strings that begin with MARK, which no text of others may have (`spark.envelopes.
foreign_json`), and texts out of the parser become numbers again. Numbers of up to 15 digits are the same through a double
(https://en.cppreference.com/w/cpp/types/numeric_limits/digits10), whole ones of any length are copied as they are.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

MARK = "\uffff"
# All loops are possessive: Java's then need no stack and never go back, whatever the text.
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_WHOLE = r"-?+\d++(?![\d.eE])"
_SHORT = r"-?+(?:(?=[\d.]{1,16}+(?![\d.]))\d++\.\d++|\d{1,15}+(?=[eE]))(?:[eE][-+]?+\d{1,2}+)?+(?![\w.+-])"
_NUMBER = r"-?+(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][-+]?+\d++)?+(?![\w.+-])"
# From where the match before has ended: what is no such number, then one.
_LONG = rf'(?s)\G((?:[^"\d-]++|{_STRING}|{_WHOLE}|{_SHORT})*+)({_NUMBER})'
_MAY_BE_LONG = r"[\d.]{17}|\d[eE]"
_MARKED = rf'^{MARK}|"{MARK}([^"]*+)"'


def mark_long_numbers(text: Expression) -> Expression:
    """The JSON text with such numbers as strings; what is no JSON stays so."""
    return sf.when(text.rlike(_MAY_BE_LONG), sf.regexp_replace(text, _LONG, f'$1"{MARK}$2"')).otherwise(text)


def unmark_numbers(text: Expression) -> Expression:
    """A value's or a document's text with its numbers as they were written."""
    return sf.when(sf.contains(text, sf.lit(MARK)), sf.regexp_replace(text, _MARKED, "$1")).otherwise(text)
