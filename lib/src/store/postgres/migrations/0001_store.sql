-- Sessions, their journals, the hosts that write them, and the search index. Times are milliseconds since 1970 by the clock
-- of the host that wrote them, except in `host`, where the clock of the database decides.

CREATE TABLE rethread.store (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    id        uuid    NOT NULL DEFAULT gen_random_uuid(),
    version   bigint  NOT NULL,
    pruned_at bigint  NOT NULL DEFAULT 0
);
INSERT INTO rethread.store (version) VALUES (0);

CREATE TABLE rethread.session (
    key              bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id               text    COLLATE "C" NOT NULL UNIQUE,
    made_by          uuid    NOT NULL,              -- the call that created it, to know it again after a lost connection
    cwd              text    COLLATE "C" NOT NULL,
    agent            text    COLLATE "C" NOT NULL,
    agent_name       text,
    title            text,
    title_by         smallint,                      -- 0 user, 1 agent, 2 first prompt
    natives          text[]  NOT NULL DEFAULT '{}', -- oldest first
    roots            text[]  NOT NULL DEFAULT '{}',
    updated_at       bigint  NOT NULL,
    parent           bigint  REFERENCES rethread.session (key),
    fork_seq         bigint,
    listed           boolean NOT NULL DEFAULT false,
    archived_at      bigint,
    archived         boolean GENERATED ALWAYS AS (archived_at IS NOT NULL) STORED,
    deleted_at       bigint,
    release_asked_at bigint,
    changed_in       bigint  NOT NULL,              -- the transaction of the last change
    CHECK ((title IS NULL) = (title_by IS NULL)),
    CHECK ((parent IS NULL) = (fork_seq IS NULL))
);
CREATE INDEX session_by_age ON rethread.session (archived, updated_at DESC, id DESC) WHERE listed AND deleted_at IS NULL;
CREATE INDEX session_by_cwd ON rethread.session (cwd, archived, updated_at DESC, id DESC)
    WHERE listed AND deleted_at IS NULL;
CREATE INDEX session_by_parent ON rethread.session (parent) WHERE parent IS NOT NULL;
CREATE INDEX session_by_change ON rethread.session (changed_in);
CREATE INDEX session_by_end ON rethread.session (reverse(id) COLLATE "C");

-- A process that writes sessions. Its leases are valid until `expires_at`, by the clock of the database.
CREATE TABLE rethread.host (
    key             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name            text        NOT NULL,
    pid             bigint      NOT NULL,
    boot            text        NOT NULL,           -- this boot of the machine and its process ids; empty if not known
    process_started bigint      NOT NULL,           -- tells a process from a later one with the same id
    address         text,                           -- where other hosts reach it; NULL for a process that serves nobody
    started_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    beat_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at      timestamptz NOT NULL
);

-- Who may append to a session, and where. Narrow, and no index has a column that an append changes: the row is updated in
-- its place.
CREATE TABLE rethread.lease (
    session     bigint PRIMARY KEY REFERENCES rethread.session (key) ON DELETE CASCADE,
    epoch       bigint NOT NULL,
    head        bigint NOT NULL,
    folded      bigint NOT NULL,
    host        bigint,                             -- nobody has it if no such row of host is valid
    owned_epoch bigint,                             -- the epoch that the host claimed
    owned_since bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX lease_by_host ON rethread.lease (host) WHERE host IS NOT NULL;

-- A row per entry that is not folded yet.
CREATE TABLE rethread.tail (
    session bigint NOT NULL,
    seq     bigint NOT NULL,
    entry   bytea  NOT NULL,
    PRIMARY KEY (session, seq)
) PARTITION BY HASH (session);
ALTER TABLE rethread.tail ALTER COLUMN entry SET STORAGE EXTERNAL;

-- A folded stretch of a journal, compressed. The segments of a session are gapless and end where its tail begins.
CREATE TABLE rethread.segment (
    session   bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq  bigint NOT NULL,
    length    bigint NOT NULL,                      -- before compression
    checksum  bigint NOT NULL,                      -- of the compressed bytes
    items     bytea  NOT NULL,
    PRIMARY KEY (session, last_seq)
) PARTITION BY HASH (session);
ALTER TABLE rethread.segment ALTER COLUMN items SET STORAGE EXTERNAL;

DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format('CREATE TABLE rethread.tail_%s PARTITION OF rethread.tail FOR VALUES WITH (MODULUS 16, REMAINDER %s)
            WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05)', part, part);
        EXECUTE format('CREATE TABLE rethread.segment_%s PARTITION OF rethread.segment
            FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
    END LOOP;
END
$$;

-- The state of a session at its last fold.
CREATE TABLE rethread.snapshot (
    session bigint PRIMARY KEY,
    state   bytea NOT NULL
);

-- The ids that agents use for sessions.
CREATE TABLE rethread.native (
    agent   text   COLLATE "C" NOT NULL,
    id      text   COLLATE "C" NOT NULL,
    session bigint NOT NULL,
    PRIMARY KEY (agent, id)
);
CREATE INDEX native_by_session ON rethread.native (session, agent);
CREATE INDEX native_by_id ON rethread.native (id);

-- What is remembered of agents.
CREATE TABLE rethread.profile (
    key     text   COLLATE "C" PRIMARY KEY,
    profile bytea  NOT NULL,
    seen_at bigint NOT NULL
);

-- How far the sources of other tools were imported.
CREATE TABLE rethread.import (
    tool     text    COLLATE "C" NOT NULL,
    path     text    COLLATE "C" NOT NULL,
    item     text    COLLATE "C" NOT NULL,          -- the session inside of a database; empty for a file
    size     bigint  NOT NULL,
    modified bigint  NOT NULL,
    session  text,                                  -- the id; NULL if there was no conversation
    turns    bigint  NOT NULL,
    events   bigint  NOT NULL,
    hash     bytea   NOT NULL,
    done     boolean NOT NULL,
    PRIMARY KEY (tool, path, item)
);

-- What readers of other tools' files did not know.
CREATE TABLE rethread.import_drift (
    tool    text   COLLATE "C" NOT NULL,
    version text   COLLATE "C" NOT NULL,
    what    text   COLLATE "C" NOT NULL,
    count   bigint NOT NULL,
    seen_at bigint NOT NULL,
    PRIMARY KEY (tool, version, what)
);

-- The messages that searches find. `place` is the time and a number, so that the newest come first.
CREATE TABLE rethread.message (
    place   bigint   PRIMARY KEY,
    session bigint   NOT NULL,                      -- whose journal it is in
    shown   bigint   NOT NULL,                      -- the session that it is shown for: a fork, if the other is deleted
    seq     bigint   NOT NULL,
    part    bigint   NOT NULL,
    turn    bigint   NOT NULL,
    speaker bigint   NOT NULL,
    message text     NOT NULL,
    length  bigint,                                 -- before compression; NULL if it is not compressed
    text    bytea    NOT NULL,
    words   tsvector NOT NULL,                      -- by our own rules, without positions
    UNIQUE (session, seq, part)
);
ALTER TABLE rethread.message ALTER COLUMN text SET STORAGE EXTERNAL;
CREATE INDEX message_words ON rethread.message USING gin (words);

-- How far the journal of a session is indexed.
CREATE TABLE rethread.indexed (
    session bigint PRIMARY KEY,
    seq     bigint NOT NULL,
    turn    bigint NOT NULL,
    at      bigint NOT NULL
);

-- Sessions in which something has ended that may not be indexed yet. A row per event, so that nobody waits for a lock.
CREATE TABLE rethread.search_pending (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session bigint NOT NULL
);
