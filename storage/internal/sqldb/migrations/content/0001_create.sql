CREATE TABLE content_set (
	id   BIGINT NOT NULL PRIMARY KEY,
	name TEXT   COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE content (
	set_id BIGINT NOT NULL,
	uri    TEXT   COLLATE "C" NOT NULL,
	hash   TEXT   COLLATE "C" NOT NULL,
	bytes  BYTEA  NOT NULL,
	PRIMARY KEY (set_id, uri, hash)
);
