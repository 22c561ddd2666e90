-- The ids that agents have for sessions, to be found by: what an agent lists as its own may be known here.

CREATE TABLE native (
    agent   TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    session INTEGER NOT NULL REFERENCES session (key),
    PRIMARY KEY (agent, id)
) WITHOUT ROWID;
