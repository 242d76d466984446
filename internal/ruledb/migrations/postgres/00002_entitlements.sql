-- +goose Up
-- Numbers of limits by the value of an attribute, such as a tenant or a plan.
CREATE TABLE entitlements (
	attribute TEXT COLLATE "C" NOT NULL,
	value     TEXT COLLATE "C" NOT NULL,
	name      TEXT COLLATE "C" NOT NULL,
	number    BIGINT,          -- NULL: deleted; nodes must learn of it
	until     BIGINT,          -- microseconds since 1970; NULL: never
	change    BIGINT NOT NULL, -- that wrote the row last
	at        BIGINT NOT NULL,
	author    TEXT   NOT NULL,
	PRIMARY KEY (attribute, value, name)
);
CREATE INDEX entitlements_change ON entitlements (change);
CREATE INDEX entitlements_deleted ON entitlements (at) WHERE number IS NULL;

-- One row. A transaction that changes entitlements updates it first, so that changes are committed in the order of
-- their numbers and readers miss none.
CREATE TABLE entitlement_changes (
	id     INTEGER PRIMARY KEY CHECK (id = 1),
	change BIGINT NOT NULL, -- the last
	stored BIGINT NOT NULL, -- rows that are not deleted
	purged BIGINT NOT NULL  -- the last change whose row was removed; who knows less must read everything again
);
INSERT INTO entitlement_changes (id, change, stored, purged) VALUES (1, 0, 0, 0);

-- +goose StatementBegin
CREATE FUNCTION entitlements_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	PERFORM pg_notify('penstock_rules', 'entitlements');
	RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER entitlements_changed AFTER UPDATE ON entitlement_changes
	FOR EACH ROW WHEN (OLD.change IS DISTINCT FROM NEW.change) EXECUTE FUNCTION entitlements_changed();
