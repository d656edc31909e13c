CREATE TABLE memento_set (
	id        BIGINT NOT NULL PRIMARY KEY,
	name      TEXT   COLLATE "C" NOT NULL UNIQUE,
	last_seq  BIGINT NOT NULL,
	resources BIGINT NOT NULL
);

CREATE TABLE memento_resource (
	set_id  BIGINT NOT NULL,
	uri     TEXT   COLLATE "C" NOT NULL,
	no      BIGINT NOT NULL,
	dropped BIGINT,
	PRIMARY KEY (set_id, uri)
) /* WITHOUT ROWID */;

CREATE TABLE memento_version (
	set_id  BIGINT   NOT NULL,
	no      BIGINT   NOT NULL,
	at      BIGINT   NOT NULL,
	gone    SMALLINT NOT NULL,
	version BYTEA    NOT NULL,
	PRIMARY KEY (set_id, no, at)
) /* WITHOUT ROWID */;
