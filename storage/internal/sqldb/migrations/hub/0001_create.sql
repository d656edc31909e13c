CREATE TABLE hub_topic (
	id    BIGINT NOT NULL PRIMARY KEY,
	url   TEXT   COLLATE "C" NOT NULL UNIQUE,
	first BIGINT NOT NULL,
	last  BIGINT NOT NULL,
	bytes BIGINT NOT NULL,
	state BYTEA,
	mark  BIGINT NOT NULL
);

CREATE INDEX hub_topic_mark ON hub_topic (mark);

CREATE TABLE hub_mark (
	id   BIGINT NOT NULL PRIMARY KEY,
	mark BIGINT NOT NULL
);

INSERT INTO hub_mark (id, mark) VALUES (1, 0);

CREATE TABLE hub_message (
	topic_id     BIGINT   NOT NULL,
	seq          BIGINT   NOT NULL,
	id           TEXT     NOT NULL,
	at           BIGINT,
	content_type TEXT     NOT NULL,
	links        BYTEA,
	whole        SMALLINT NOT NULL,
	body         BYTEA    NOT NULL,
	PRIMARY KEY (topic_id, seq)
);

CREATE TABLE hub_subscription (
	key      TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
	topic    TEXT   NOT NULL,
	callback TEXT   NOT NULL,
	secret   BYTEA,
	created  BIGINT,
	expires  BIGINT
) /* WITHOUT ROWID */;

CREATE TABLE hub_progress (
	key        TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
	cursor     BIGINT NOT NULL,
	attempts   BIGINT NOT NULL,
	next       BIGINT,
	failing    BIGINT,
	last_error TEXT   NOT NULL,
	last_taken BIGINT,
	taken      BIGINT NOT NULL,
	given_up   BIGINT NOT NULL
) /* WITHOUT ROWID */;

CREATE TABLE hub_request (
	key          TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
	mode         TEXT   NOT NULL,
	topic        TEXT   NOT NULL,
	callback     TEXT   NOT NULL,
	secret       BYTEA,
	lease        BIGINT NOT NULL,
	verify_token TEXT   NOT NULL,
	at           BIGINT,
	attempts     BIGINT NOT NULL,
	next         BIGINT
) /* WITHOUT ROWID */;

CREATE TABLE hub_owner (
	owner TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
	until BIGINT NOT NULL
) /* WITHOUT ROWID */;

CREATE TABLE hub_claim (
	shard SMALLINT NOT NULL PRIMARY KEY,
	owner TEXT     COLLATE "C" NOT NULL
);
