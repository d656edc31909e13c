CREATE TABLE ledger_set (
	id   BIGINT NOT NULL PRIMARY KEY,
	name TEXT   COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE ledger_record (
	set_id    BIGINT   NOT NULL,
	id        TEXT     COLLATE "C" NOT NULL,
	seconds   BIGINT   NOT NULL,
	nanos     BIGINT   NOT NULL,
	deleted   SMALLINT NOT NULL,
	undecided SMALLINT NOT NULL,
	resources BYTEA,
	PRIMARY KEY (set_id, id)
) /* WITHOUT ROWID */;

CREATE INDEX ledger_record_undecided ON ledger_record (set_id, id) WHERE undecided <> 0;

CREATE TABLE ledger_resource (
	set_id BIGINT NOT NULL,
	uri    TEXT   COLLATE "C" NOT NULL,
	id     TEXT   COLLATE "C" NOT NULL,
	PRIMARY KEY (set_id, uri, id)
) /* WITHOUT ROWID */;
