CREATE TABLE catalog_refreshed (
	set_id BIGINT NOT NULL,
	uri    TEXT   COLLATE "C" NOT NULL,
	at     BIGINT NOT NULL,
	PRIMARY KEY (set_id, uri)
) /* WITHOUT ROWID */;
