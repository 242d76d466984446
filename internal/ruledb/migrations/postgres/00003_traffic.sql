-- +goose Up
CREATE TABLE traffic_minutes (
	minute BIGINT NOT NULL, -- minutes since 1970
	node   TEXT   NOT NULL, -- new with every start
	name   TEXT   NOT NULL, -- of the node, for people
	counts BYTEA  NOT NULL,
	PRIMARY KEY (minute, node)
);
