-- The search index. It has nothing that the journals do not have.

PRAGMA user_version = 1;

-- The journals that are indexed. One that was erased keeps its row, so that nobody adds what was read before.
CREATE TABLE indexed (
    journal INTEGER PRIMARY KEY,        -- the key of the session in the store
    version INTEGER NOT NULL,           -- grows when the journal is erased
    shown   INTEGER NOT NULL,           -- the key of the session that hits are shown for
    cut     INTEGER NOT NULL,           -- the last entry that is shown
    scope   TEXT    NOT NULL,           -- the directory and the agents, by name
    tokens  TEXT    NOT NULL,           -- the same as it is in `word`
    upto    INTEGER NOT NULL,           -- the last entry that is indexed
    turn    INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    state   TEXT    NOT NULL            -- what the store had of the journal when all of it was indexed
);

-- The id sorts by time: milliseconds since 1970, then a number.
CREATE TABLE message (
    id      INTEGER PRIMARY KEY,
    journal INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    part    INTEGER NOT NULL,
    turn    INTEGER NOT NULL,
    speaker INTEGER NOT NULL,
    message TEXT    NOT NULL,
    length  INTEGER,                    -- the length of a text that is compressed
    text    BLOB    NOT NULL
);
CREATE UNIQUE INDEX message_by_place ON message (journal, seq, part);

-- The directories and agents that a search can be limited to.
CREATE TABLE scope_name (
    id   INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,              -- 0 directory, 1 agent
    name TEXT    NOT NULL,
    UNIQUE (kind, name)
);

-- The revision of the store's rows up to which sessions were looked at.
CREATE TABLE progress (revision INTEGER NOT NULL);
INSERT INTO progress (revision) VALUES (-1);

-- The words of the messages, and the scope that they are in. The text is not stored again.
CREATE VIRTUAL TABLE word USING fts5(
    text, scope, content = '', columnsize = 0, tokenize = "unicode61 remove_diacritics 2 tokenchars '_'"
);
INSERT INTO word (word, rank) VALUES ('secure-delete', 1);
CREATE VIRTUAL TABLE word_vocabulary USING fts5vocab(word, row);
