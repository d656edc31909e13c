ALTER TABLE journal_held ADD COLUMN stated BYTEA;
