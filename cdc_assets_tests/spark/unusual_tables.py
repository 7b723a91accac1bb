"""Tables that PostgreSQL has and few think of, and what happens to them once they are captured."""

from __future__ import annotations

TABLES = [
    *("unusual.shown", "unusual.by_shape", "unusual.parted", "unusual.lagging", "unusual.anew"),
    {"name": "unusual.book", "accept_inexact": ["many"]},
]
DDL = """
CREATE SCHEMA unusual; SET search_path TO unusual, public;
CREATE EXTENSION IF NOT EXISTS isn SCHEMA public; CREATE EXTENSION IF NOT EXISTS hstore SCHEMA public;
CREATE TYPE shape AS (a int, b text, c timestamp);
CREATE DOMAIN shaped AS shape;
CREATE TABLE shown (id int PRIMARY KEY, v shape, w shaped);
INSERT INTO shown VALUES (1, '(,x,"2020-01-01 00:00:00.5")', '(,x,)'),
  (2, '(,,)', NULL), (3, NULL, '(1,,)'), (4, '(1,"a,b",)', '(,,)');
CREATE TABLE by_shape (k shape PRIMARY KEY, n int);
INSERT INTO by_shape VALUES ('(,x,)', 1), ('(,,)', 2), ('(1,y,"2020-01-01")', 3);
CREATE TABLE parted (id int, day date, region text, v text, PRIMARY KEY (id, day, region)) PARTITION BY RANGE (day);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM ('2026-02-01') TO ('2026-03-01') PARTITION BY LIST (region);
CREATE TABLE parted_2_a PARTITION OF parted_2 FOR VALUES IN ('a');
CREATE TABLE parted_2_b PARTITION OF parted_2 FOR VALUES IN ('b');
INSERT INTO parted SELECT i, '2026-01-20'::date + i, chr(97 + i % 2), 'read ' || i FROM generate_series(1, 30) i;
CREATE TABLE lagging (id int PRIMARY KEY, a text, b text, c text, d int);
INSERT INTO lagging SELECT i, 'a' || i, 'b' || i, 'c' || i, i FROM generate_series(1, 12) i;
CREATE TABLE anew (id int PRIMARY KEY, d int, v int);
INSERT INTO anew SELECT i, i, i FROM generate_series(1, 12) i;
CREATE TABLE book (id int PRIMARY KEY, i isbn, j isbn13, s issn, e ean13, u upc, m ismn, many isbn[]);
INSERT INTO book VALUES (1,
  '0-393-04002-X', '978-0-393-04002-9', '1436-4522', '4719512002889', '220356483481', '979-0-060-11561-5', NULL);
"""
BEHIND = """
UPDATE lagging SET a = 'before' WHERE id = 1;
ALTER TABLE lagging RENAME a TO aa; ALTER TABLE lagging DROP d; ALTER TABLE lagging ADD d int;
ALTER TABLE lagging ADD e text DEFAULT 'e';
UPDATE lagging SET aa = 'after', d = 7 WHERE id IN (1, 2); INSERT INTO lagging (id, aa) VALUES (20, 'new');
ALTER TABLE anew DROP d; ALTER TABLE anew ADD d int; ALTER TABLE anew ALTER v TYPE text USING 'v' || v;
UPDATE anew SET v = v WHERE id > 1; UPDATE anew SET d = 7, v = 'text' WHERE id = 2
"""
"""What leaves silver behind a change of the schema. No event tells what the change of type made of v in row 1."""
CHANGES = """
UPDATE parted SET v = 'changed' WHERE id % 3 = 0; UPDATE parted SET day = day + 15 WHERE id IN (1, 2, 3);
UPDATE parted SET region = 'a' WHERE id IN (15, 17, 19); DELETE FROM parted WHERE id IN (5, 25);
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
INSERT INTO parted SELECT i, '2026-03-01', 'c', 'later' FROM generate_series(100, 105) i;
UPDATE parted SET day = '2026-03-02' WHERE id = 10;
INSERT INTO book SELECT 2, i, j, s, e, u, m, ARRAY[i] FROM book WHERE id = 1; INSERT INTO book (id) VALUES (3)
"""
SELECTS = {
    "shown": "SELECT id, v::text, w::text FROM shown",
    "parted": "SELECT id, day, region, v FROM parted",
    "lagging": "SELECT id, aa, b, c, d, e FROM lagging",
    "book": "SELECT id, i::text, j::text, s::text, e::text, u::text, m::text, many::text[] FROM book",
}
"""What PostgreSQL has, under the names of silver's columns."""
