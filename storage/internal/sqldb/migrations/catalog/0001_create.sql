CREATE TABLE catalog_set (
	id         BIGINT NOT NULL PRIMARY KEY,
	name       TEXT   COLLATE "C" NOT NULL UNIQUE,
	resources  BIGINT NOT NULL,
	last_seq   BIGINT NOT NULL,
	last_event BIGINT NOT NULL,
	floor      BIGINT NOT NULL,
	kept_seq   BIGINT NOT NULL,
	kept_at    BIGINT
);

CREATE TABLE catalog_resource (
	set_id BIGINT NOT NULL,
	uri    TEXT   COLLATE "C" NOT NULL,
	record BYTEA  NOT NULL,
	PRIMARY KEY (set_id, uri)
) /* WITHOUT ROWID */;

CREATE TABLE catalog_change (
	set_id BIGINT   NOT NULL,
	seq    BIGINT   NOT NULL,
	event  BIGINT   NOT NULL,
	change SMALLINT NOT NULL,
	uri    TEXT     COLLATE "C" NOT NULL,
	record BYTEA,
	PRIMARY KEY (set_id, seq)
) /* WITHOUT ROWID */;
