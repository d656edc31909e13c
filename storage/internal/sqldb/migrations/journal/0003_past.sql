CREATE TABLE journal_past (
	uri     TEXT     COLLATE "C" NOT NULL,
	seq     BIGINT   NOT NULL,
	was     SMALLINT NOT NULL,
	path    TEXT     COLLATE "C" NOT NULL,
	length  BIGINT   NOT NULL,
	lastmod BIGINT,
	hashes  BYTEA,
	sets    BYTEA,
	digest  BYTEA,
	PRIMARY KEY (uri, seq)
) /* WITHOUT ROWID */;

CREATE TABLE journal_instant (
	at   BIGINT NOT NULL PRIMARY KEY,
	seq  BIGINT NOT NULL,
	note BYTEA
) /* WITHOUT ROWID */;
