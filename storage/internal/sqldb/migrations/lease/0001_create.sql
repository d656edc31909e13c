CREATE TABLE lease (
	token BIGINT NOT NULL PRIMARY KEY,
	owner TEXT   NOT NULL,
	since BIGINT NOT NULL,
	until BIGINT NOT NULL
);

INSERT INTO lease (token, owner, since, until) VALUES (0, '', 0, 0);
