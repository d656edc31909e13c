CREATE TABLE journal_document (
	name  TEXT  COLLATE "C" NOT NULL PRIMARY KEY,
	value BYTEA NOT NULL
) /* WITHOUT ROWID */;

CREATE TABLE journal_held (
	uri      TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
	path     TEXT   COLLATE "C" NOT NULL,
	length   BIGINT NOT NULL,
	lastmod  BIGINT,
	hashes   BYTEA,
	etag     TEXT   NOT NULL,
	modified TEXT   NOT NULL,
	sets     BYTEA
) /* WITHOUT ROWID */;

CREATE TABLE journal_owed (
	set_no BIGINT NOT NULL,
	uri    TEXT   COLLATE "C" NOT NULL,
	entry  BYTEA,
	cause  TEXT   NOT NULL,
	PRIMARY KEY (set_no, uri)
) /* WITHOUT ROWID */;

CREATE TABLE journal_staged (
	run  BIGINT NOT NULL,
	uri  TEXT   COLLATE "C" NOT NULL,
	data BYTEA,
	PRIMARY KEY (run, uri)
) /* WITHOUT ROWID */;
