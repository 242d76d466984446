INSERT INTO rule_versions (number, at, author, message, restores, digest, document)
VALUES (1, 1700000000000000, 'ann', 'first', NULL,
	x'00eb8a0ecfecb77c25d7e28890b0a2d479966fd1b88274af09fd5c70b7fc0f71', x'72756c65733a205b5d');
INSERT INTO rule_audit (at, actor, action, version, detail) VALUES (1700000000000000, 'ann', 'save', 1, 'first');
INSERT INTO rule_versions (number, at, author, message, restores, digest, document)
VALUES (2, 1700000001000000, 'bob', 'back', 1,
	x'00eb8a0ecfecb77c25d7e28890b0a2d479966fd1b88274af09fd5c70b7fc0f71', x'72756c65733a205b5d');
INSERT INTO rule_audit (at, actor, action, version, detail) VALUES (1700000001000000, 'bob', 'rollback', 2, 'back');
INSERT INTO traffic_annotations (id, at, rule, body, author)
VALUES ('AAAABBBBCCCC', 1700000000000000, '', 'blocked scraper, ticket 123', 'ann');
