-- +goose Up
CREATE TABLE rule_blocks (
	id        TEXT   PRIMARY KEY,
	domain    TEXT   NOT NULL, -- '': every domain
	attribute TEXT   NOT NULL,
	value     TEXT   NOT NULL,
	reason    TEXT   NOT NULL,
	author    TEXT   NOT NULL,
	begins    BIGINT NOT NULL, -- microseconds since 1970
	ends      BIGINT NOT NULL,
	lifted_by TEXT   NOT NULL -- '': nobody
);
