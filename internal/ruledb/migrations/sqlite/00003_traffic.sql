-- +goose Up
CREATE TABLE traffic_minutes (
	minute INTEGER NOT NULL, -- minutes since 1970
	node   TEXT    NOT NULL, -- new with every start
	name   TEXT    NOT NULL, -- of the node, for people
	counts BLOB    NOT NULL,
	PRIMARY KEY (minute, node)
) STRICT, WITHOUT ROWID;
