-- +goose Up
CREATE TABLE traffic_annotations (
	id     TEXT   PRIMARY KEY,
	at     BIGINT NOT NULL, -- microseconds since 1970
	rule   TEXT   NOT NULL, -- '': all rules
	body   TEXT   NOT NULL,
	author TEXT   NOT NULL
);
