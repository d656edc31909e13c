CREATE TABLE hub_replay (
	digest BYTEA  NOT NULL PRIMARY KEY,
	until  BIGINT NOT NULL
);

CREATE INDEX hub_replay_until ON hub_replay (until);
