"""Tables that PostgreSQL has and few think of, and what happens to them once they are captured."""

from __future__ import annotations

ALONE = {
    "attached": "CREATE TABLE attached_d (v text, id int NOT NULL, r text NOT NULL);"
    "INSERT INTO attached_d VALUES ('d', 90, 'd');"
    "ALTER TABLE attached ATTACH PARTITION attached_d FOR VALUES IN ('d')",
    "detached": "ALTER TABLE detached DETACH PARTITION detached_b",
    "dropped": "DROP TABLE dropped_c",
    "emptied": "TRUNCATE emptied_b",
    "away": "ALTER TABLE away DETACH PARTITION away_b; UPDATE away_b SET v = 'while away' WHERE id = 1;"
    "DELETE FROM away_b WHERE id = 4; ALTER TABLE away ATTACH PARTITION away_b FOR VALUES IN ('b')",
}
"""Tables to which one thing alone happens without an event, and what."""
TABLES = [
    *("unusual.shown", "unusual.by_shape", "unusual.lagging", "unusual.anew"),
    *("unusual.swapped", "unusual.rekeyed"),
    "unusual.included",
    {"name": "unusual.wide", "accept_inexact": ["t"]},
    {"name": "unusual.book", "accept_inexact": ["many"]},
    {"name": "unusual.chosen", "keys": ["code"]},
    {"name": "unusual.parent", "only": True},
    {"name": "unusual.parted", "schema_changes": {"drop_table": "evolve"}},
    *({"name": f"unusual.{table}", "schema_changes": {"drop_table": "evolve"}} for table in ALONE),
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
CREATE TABLE parent (id int PRIMARY KEY, v text);
CREATE TABLE child (more int, PRIMARY KEY (id)) INHERITS (parent);
INSERT INTO parent VALUES (1, 'own'), (2, 'own'); INSERT INTO child VALUES (3, 'of a child', 3), (1, 'of a child', 1);
CREATE TABLE lagging (id int PRIMARY KEY, a text, b text, c text, d int);
INSERT INTO lagging SELECT i, 'a' || i, 'b' || i, 'c' || i, i FROM generate_series(1, 12) i;
CREATE TABLE anew (id int PRIMARY KEY, d int, v int);
INSERT INTO anew SELECT i, i, i FROM generate_series(1, 12) i;
CREATE TABLE swapped (id int PRIMARY KEY, a text, b text, c text, d text, f int, e text);
INSERT INTO swapped SELECT i, 'a' || i, NULLIF('b' || i, 'b9'), 'c' || i, 'd' || i, i, 'e' || i FROM generate_series(1, 12) i;
CREATE TABLE rekeyed (id int, k text, v text, PRIMARY KEY (id, k));
INSERT INTO rekeyed SELECT i, 'k' || i, 'v' || i FROM generate_series(1, 8) i;
CREATE TABLE included (id int, v text, PRIMARY KEY (id) INCLUDE (v));
INSERT INTO included SELECT i, i FROM generate_series(1, 6) i;
CREATE TABLE book (id int PRIMARY KEY, i isbn, j isbn13, s issn, e ean13, u upc, m ismn, many isbn[]);
INSERT INTO book VALUES (1,
  '0-393-04002-X', '978-0-393-04002-9', '1436-4522', '4719512002889', '220356483481', '979-0-060-11561-5', NULL);
CREATE TABLE chosen (id int PRIMARY KEY, code text NOT NULL, v int);
CREATE UNIQUE INDEX chosen_code ON chosen (code); ALTER TABLE chosen REPLICA IDENTITY USING INDEX chosen_code;
INSERT INTO chosen SELECT i, 'p' || i, i FROM generate_series(1, 24) i;
CREATE TABLE wide (id int PRIMARY KEY, v interval, y interval year to month, h hstore, hs hstore[], r tstzrange, rs tstzrange[],
  m tstzmultirange, p point, l line, s lseg, b box, o path, g polygon, c circle, t timetz);
"""
DDL += "".join(
    f"""
CREATE TABLE {table} (id int, r text, v text, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE {table}_a PARTITION OF {table} FOR VALUES IN ('a'); CREATE TABLE {table}_c PARTITION OF {table} FOR VALUES IN ('c');
CREATE TABLE {table}_b (v text, gone int, r text NOT NULL, id int NOT NULL); ALTER TABLE {table}_b DROP gone;
ALTER TABLE {table} ATTACH PARTITION {table}_b FOR VALUES IN ('b');
INSERT INTO {table} SELECT i, chr(97 + i % 3), 'read' FROM generate_series(1, 6) i;"""
    for table in ALONE
)
KINDS = ("v", "y", "h", "hs", "r", "rs", "m", "p", "l", "s", "b", "o", "g", "c", "t")
COPIES = {kind: 100 * number for number, kind in enumerate(KINDS, 1)}
"""A row per kind, with the values of row 1."""
WIDE = f"""
INSERT INTO unusual.wide VALUES
(1, '1 year 2 mons 3 days 04:05:06.789', '1-2', 'a=>1, b=>NULL, "c d"=>"x\\"y"', ARRAY['z=>1,a=>2', NULL]::hstore[],
 '[2024-01-01 00:00+02,2024-02-01 00:00:00.5+00)', ARRAY['[2024-01-01 00:00+02,)', NULL]::tstzrange[],
 '{{[2024-01-01 00:00+02,2024-02-01),[2024-03-01,infinity)}}', '(1.5,2)', '{{1,2,3}}', '[(0,0),(1,1.5)]', '(1,1),(0,0)',
 '[(0,0),(1,1)]', '((0,0),(1,0),(0,1))', '<(0,0.5),2.5>', '12:34:56.123456+05:30'),
(2, '-1 year 3 days -00:00:00.000001', '-1-2', '', '{{}}', 'empty', '{{empty}}', '{{}}', '(Infinity,NaN)', '{{0.1,-1e-300,-0}}',
 '[(-0,5e-324),(1e300,-7)]', '(0.1,-7),(-3,-8.5)', '((0,0),(1,1),(2,0.5))', '((0,0),(1,0),(0,1),(-3,-0))', '<(1e300,-0),0>',
 '24:00:00-08'),
(3, '178000000 years', '9 years', '"ü;" => ";,:", b=>"", "B"=>NULL', NULL, '(,0099-01-01 BC]', NULL, '{{(,)}}', '(0.1,1e300)',
 '{{-1,0,0}}', '[(0,0),(0,0)]', '(NaN,1),(0,0)', '[(0,0)]', '((1,1))', '<(NaN,Infinity),Infinity>', '12:00:00.5+01:02:03'),
(4, '1 mon -1 day', '1 mon', 'a=>a', NULL, '[-infinity,infinity)', NULL, '{{[12024-01-01,)}}', '(-0,0)', '{{1,1,1}}', NULL, NULL,
 NULL, '((0,0),(1,0),(-0,0))', NULL, '00:00:00.10+00');
INSERT INTO unusual.wide (id) VALUES (5);
INSERT INTO unusual.wide SELECT i, {", ".join(f"w.{kind}" for kind in KINDS)}
  FROM unusual.wide w, unnest(ARRAY{[*COPIES.values()]}) i WHERE w.id = 1
"""
BEHIND = """
UPDATE lagging SET a = 'before' WHERE id = 1;
ALTER TABLE lagging RENAME a TO aa; ALTER TABLE lagging DROP d; ALTER TABLE lagging ADD d int;
ALTER TABLE lagging ADD e text DEFAULT 'e'; ALTER TABLE lagging ADD f text[] DEFAULT '{"NULL",NULL,"a,b","","\\"\\\\"}';
ALTER TABLE lagging ADD g int[] DEFAULT '{1,-2}'; ALTER TABLE lagging ADD h timestamp[] DEFAULT '{2024-02-29 12:34:56.5}';
UPDATE lagging SET aa = 'after', d = 7 WHERE id IN (1, 2); INSERT INTO lagging (id, aa) VALUES (20, 'new');
UPDATE rekeyed SET v = 'before' WHERE id < 3; ALTER TABLE rekeyed RENAME id TO ident; DELETE FROM rekeyed WHERE ident IN (2, 4);
ALTER TABLE rekeyed RENAME k TO kk; UPDATE rekeyed SET kk = 'moved' WHERE ident IN (1, 3); DELETE FROM rekeyed WHERE ident = 5;
INSERT INTO rekeyed VALUES (2, 'k2', 'again');
ALTER TABLE anew DROP d; ALTER TABLE anew ADD d int; ALTER TABLE anew ALTER v TYPE text USING 'v' || v;
UPDATE anew SET v = v WHERE id > 1; UPDATE anew SET d = 7, v = 'text' WHERE id = 2
"""
"""What leaves silver behind a change of the schema. No event tells what the change of type made of v in row 1."""
SWAPS = (
    "UPDATE swapped SET a = 'a before' WHERE id = 1; UPDATE swapped SET f = 100 WHERE id IN (2, 3)",
    "ALTER TABLE swapped RENAME a TO tmp; ALTER TABLE swapped RENAME b TO a; ALTER TABLE swapped RENAME tmp TO b",
    "UPDATE swapped SET a = 'a behind' WHERE id = 2; UPDATE swapped SET c = 'c before' WHERE id = 4",
    "ALTER TABLE swapped RENAME c TO tmp",
    "UPDATE swapped SET tmp = 'tmp' WHERE id = 5; UPDATE swapped SET d = NULL WHERE id = 6",
    "ALTER TABLE swapped RENAME d TO c",
    "UPDATE swapped SET c = 'c between' WHERE id = 7",
    "ALTER TABLE swapped RENAME tmp TO d",
    "UPDATE swapped SET e = 'e before', d = NULL WHERE id = 8",
    "ALTER TABLE swapped RENAME e TO e_old; ALTER TABLE swapped ADD e text",
    "UPDATE swapped SET e = 'e behind' WHERE id = 9; UPDATE swapped SET f = 200 WHERE id IN (10, 11)",
    "ALTER TABLE swapped DROP f; ALTER TABLE swapped ADD f int",
    "UPDATE swapped SET f = 7 WHERE id IN (3, 11); INSERT INTO swapped VALUES (20, 'b', 'a', 'd', 'c', 'old', 'new', 20)",
)
"""Names change places, in one transaction and in several; one is given away and used again; a column goes and comes again."""
CHANGES = f"""
UPDATE parted SET v = 'changed' WHERE id % 3 = 0; UPDATE parted SET day = day + 15 WHERE id IN (1, 2, 3);
UPDATE parted SET region = 'a' WHERE id IN (15, 17, 19); DELETE FROM parted WHERE id IN (5, 25);
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
INSERT INTO parted SELECT i, '2026-03-01', 'c', 'later' FROM generate_series(100, 105) i;
UPDATE parted SET day = '2026-03-02' WHERE id = 10;
ALTER TABLE parted ADD y text DEFAULT 'y'; UPDATE parted SET y = 'own' WHERE id IN (11, 12);
UPDATE child SET v = 'changed' WHERE id = 3; UPDATE ONLY parent SET v = 'changed' WHERE id = 2;
INSERT INTO book SELECT 2, i, j, s, e, u, m, ARRAY[i] FROM book WHERE id = 1; INSERT INTO book (id) VALUES (3);
INSERT INTO wide SELECT id + 10, {", ".join(KINDS)} FROM wide;
DELETE FROM chosen WHERE id % 3 = 0; UPDATE chosen SET code = code || '!', v = 0 WHERE id % 4 = 1;
UPDATE included SET v = 'new' WHERE id < 3; DELETE FROM included WHERE id = 3
"""
UNLOGGED = """
DROP TABLE parted_1; TRUNCATE parted_2_a;
CREATE TABLE filled (LIKE parted INCLUDING ALL); INSERT INTO filled VALUES (200, '2026-04-01', 'a', 'filled');
ALTER TABLE parted ATTACH PARTITION filled FOR VALUES FROM ('2026-04-01') TO ('2026-05-01')
"""
"""What happens to partitions without an event."""
SELECTS = {
    "shown": "SELECT id, v::text, w::text FROM shown",
    "parted": "SELECT id, day, region, v, y FROM parted",
    "parent": "SELECT id, v FROM ONLY parent",
    "swapped": "SELECT id, a, b, c, d, e_old, e, f FROM swapped",
    "rekeyed": "SELECT ident, kk, v FROM rekeyed",
    "lagging": "SELECT id, aa, b, c, d, e, f, g, h FROM lagging",
    "book": "SELECT id, i::text, j::text, s::text, e::text, u::text, m::text, many::text[] FROM book",
    "chosen": "SELECT id, code, v FROM chosen",
    "included": "SELECT id, v FROM included",
}
"""What PostgreSQL has, under the names of silver's columns."""
