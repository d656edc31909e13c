DROP TABLE journal_staged;
