-- Sessions, their journals, and the processes that write them.

CREATE TABLE session (
    key         INTEGER PRIMARY KEY,
    uid         TEXT    NOT NULL UNIQUE,
    cwd         TEXT    NOT NULL,
    agent       TEXT    NOT NULL,
    title       TEXT,
    title_by    INTEGER,                        -- 0 user, 1 agent, 2 first prompt
    natives     TEXT    NOT NULL DEFAULT '[]',  -- JSON, oldest first
    roots       TEXT    NOT NULL DEFAULT '[]',  -- JSON
    updated_at  INTEGER NOT NULL,
    head_seq    INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    owner       TEXT,                           -- nobody has it if no such row of owner exists
    owned_since INTEGER,
    parent      INTEGER REFERENCES session (key),
    fork_seq    INTEGER,
    listed      INTEGER NOT NULL DEFAULT 0,
    archived_at INTEGER,
    deleted_at  INTEGER,
    archived    INTEGER GENERATED ALWAYS AS (archived_at IS NOT NULL) VIRTUAL,
    CHECK ((title IS NULL) = (title_by IS NULL)),
    CHECK ((parent IS NULL) = (fork_seq IS NULL))
);

CREATE INDEX session_by_age ON session (archived, updated_at DESC, uid DESC)
    WHERE listed = 1 AND deleted_at IS NULL;
CREATE INDEX session_by_cwd ON session (cwd, archived, updated_at DESC, uid DESC)
    WHERE listed = 1 AND deleted_at IS NULL;
CREATE INDEX session_by_parent ON session (parent) WHERE parent IS NOT NULL;

-- Apart from the row, so that an append does not rewrite it.
CREATE TABLE snapshot (
    session INTEGER PRIMARY KEY REFERENCES session (key),
    state   BLOB NOT NULL
);

-- A row per entry that is not folded yet.
CREATE TABLE tail (
    key     INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (key),
    seq     INTEGER NOT NULL,
    entry   BLOB    NOT NULL,
    UNIQUE (session, seq)
);

-- A folded stretch of a journal, compressed. The segments of a session are gapless and end where its tail begins.
CREATE TABLE segment (
    key       INTEGER PRIMARY KEY,
    session   INTEGER NOT NULL REFERENCES session (key),
    first_seq INTEGER NOT NULL,
    last_seq  INTEGER NOT NULL,
    length    INTEGER NOT NULL,                 -- before compression
    checksum  INTEGER NOT NULL,                 -- of the compressed bytes
    items     BLOB    NOT NULL,
    UNIQUE (session, last_seq)
);

CREATE TABLE owner (
    id         TEXT    PRIMARY KEY,             -- also the name of its lock file
    pid        INTEGER NOT NULL,
    host       TEXT    NOT NULL,
    boot       TEXT    NOT NULL,
    started_at INTEGER NOT NULL
) WITHOUT ROWID;
