-- Entries that are not folded are in journal files from now on. What was in `tail` has been moved to segments.

DROP TABLE tail;

-- The name of the journal files of a session: random, never the public id. NULL for sessions that were only listed.
ALTER TABLE session ADD COLUMN journal TEXT;
UPDATE session SET journal = lower(hex(randomblob(16))) WHERE head_seq > 0 OR owner IS NOT NULL;

-- The journal files in use, in the order of (epoch, number).
CREATE TABLE journal_file (
    session INTEGER NOT NULL REFERENCES session (key),
    epoch   INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    PRIMARY KEY (session, epoch, number)
) WITHOUT ROWID;

-- Identifies the store in its journal files.
CREATE TABLE store (id TEXT NOT NULL);
INSERT INTO store (id) VALUES (lower(hex(randomblob(16))));

-- Grows with each change of a row, so that others can ask what has changed since.
ALTER TABLE session ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
CREATE INDEX session_by_revision ON session (revision);

CREATE TRIGGER session_added AFTER INSERT ON session BEGIN
    UPDATE session SET revision = (SELECT max(revision) + 1 FROM session) WHERE key = new.key;
END;
CREATE TRIGGER session_changed
AFTER UPDATE OF cwd, agent, title, roots, updated_at, epoch, owner, listed, archived_at, deleted_at ON session BEGIN
    UPDATE session SET revision = (SELECT max(revision) + 1 FROM session) WHERE key = new.key;
END;
