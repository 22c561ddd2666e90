-- What agents said of themselves when they were last met.

CREATE TABLE profile (
    key           TEXT    PRIMARY KEY,
    profile       BLOB    NOT NULL,
    remembered_at INTEGER NOT NULL
) WITHOUT ROWID;
