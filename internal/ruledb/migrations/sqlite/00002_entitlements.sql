-- +goose Up
-- Numbers of limits by the value of an attribute, such as a tenant or a plan.
CREATE TABLE entitlements (
	attribute TEXT    NOT NULL,
	value     TEXT    NOT NULL,
	name      TEXT    NOT NULL,
	number    INTEGER,          -- NULL: deleted; nodes must learn of it
	until     INTEGER,          -- microseconds since 1970; NULL: never
	change    INTEGER NOT NULL, -- that wrote the row last
	at        INTEGER NOT NULL,
	author    TEXT    NOT NULL,
	PRIMARY KEY (attribute, value, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX entitlements_change ON entitlements (change);
CREATE INDEX entitlements_deleted ON entitlements (at) WHERE number IS NULL;

-- One row. A transaction that changes entitlements updates it first, so that changes are committed in the order of
-- their numbers and readers miss none.
CREATE TABLE entitlement_changes (
	id     INTEGER PRIMARY KEY CHECK (id = 1),
	change INTEGER NOT NULL, -- the last
	stored INTEGER NOT NULL, -- rows that are not deleted
	purged INTEGER NOT NULL  -- the last change whose row was removed; who knows less must read everything again
) STRICT;
INSERT INTO entitlement_changes (id, change, stored, purged) VALUES (1, 0, 0, 0);
