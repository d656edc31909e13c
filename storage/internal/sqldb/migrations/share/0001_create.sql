CREATE TABLE share_process (
	id      TEXT   NOT NULL PRIMARY KEY,
	name    TEXT   NOT NULL,
	run     BIGINT NOT NULL,
	divisor BIGINT NOT NULL,
	open    BIGINT NOT NULL,
	pauses  BYTEA,
	seen    BIGINT NOT NULL,
	until   BIGINT NOT NULL
);

CREATE TABLE share_message (
	recipient TEXT   NOT NULL,
	sender    TEXT   NOT NULL,
	number    BIGINT NOT NULL,
	run       BIGINT NOT NULL,
	kind      BIGINT NOT NULL,
	body      BYTEA,
	PRIMARY KEY (recipient, sender, number)
);
