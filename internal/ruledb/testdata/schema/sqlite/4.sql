INSERT INTO rule_versions (number, at, author, message, restores, digest, document)
VALUES (1, 1700000000000000, 'ann', 'first', NULL,
	x'00eb8a0ecfecb77c25d7e28890b0a2d479966fd1b88274af09fd5c70b7fc0f71', x'72756c65733a205b5d');
INSERT INTO rule_audit (at, actor, action, version, detail) VALUES (1700000000000000, 'ann', 'save', 1, 'first');
INSERT INTO rule_versions (number, at, author, message, restores, digest, document)
VALUES (2, 1700000001000000, 'bob', 'back', 1,
	x'00eb8a0ecfecb77c25d7e28890b0a2d479966fd1b88274af09fd5c70b7fc0f71', x'72756c65733a205b5d');
INSERT INTO rule_audit (at, actor, action, version, detail) VALUES (1700000001000000, 'bob', 'rollback', 2, 'back');
INSERT INTO admin_users (id, name, role, password, version, epoch, created_at, login_at)
VALUES (7, 'ann', 'admin', '$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc', 3, 2, 1700000000000000, 1700000001000000);
INSERT INTO admin_tokens (id, digest, name, owner, role, scopes, created_by, created_at, expires_at, used_at)
VALUES ('a1b2c3d4', x'00eb8a0ecfecb77c25d7e28890b0a2d479966fd1b88274af09fd5c70b7fc0f71', 'laptop', 7, 'operator', 'keys rules', 'ann (admin) at 127.0.0.1', 1700000000000000, 1900000000000000, 0);
INSERT INTO traffic_minutes (minute, node, name, counts) VALUES (28333333, 'ABC', 'north', x'7b7d');
