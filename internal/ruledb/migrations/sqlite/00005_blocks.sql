-- +goose Up
CREATE TABLE rule_blocks (
	id        TEXT    PRIMARY KEY,
	domain    TEXT    NOT NULL, -- '': every domain
	attribute TEXT    NOT NULL,
	value     TEXT    NOT NULL,
	reason    TEXT    NOT NULL,
	author    TEXT    NOT NULL,
	begins    INTEGER NOT NULL, -- microseconds since 1970
	ends      INTEGER NOT NULL,
	lifted_by TEXT    NOT NULL -- '': nobody
) STRICT;
