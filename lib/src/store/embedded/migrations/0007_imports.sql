-- How far the sources of other tools were imported.
CREATE TABLE import (
    tool     TEXT    NOT NULL,
    path     TEXT    NOT NULL,
    item     TEXT    NOT NULL,                  -- the session inside of a database; empty for a file
    size     INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    session  TEXT,                              -- the uid; NULL if there was no conversation
    turns    INTEGER NOT NULL,
    events   INTEGER NOT NULL,
    hash     BLOB    NOT NULL,
    done     INTEGER NOT NULL,
    PRIMARY KEY (tool, path, item)
) WITHOUT ROWID;

-- What readers of other tools' files did not know.
CREATE TABLE import_drift (
    tool    TEXT    NOT NULL,
    version TEXT    NOT NULL,
    what    TEXT    NOT NULL,
    count   INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (tool, version, what)
) WITHOUT ROWID;
