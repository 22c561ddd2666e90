-- The tokens with which clients reach any host, shares included: what each may do and the hash of its text, in JSON.

CREATE TABLE rethread.token (
    id     text   COLLATE "C" PRIMARY KEY,
    number bigint GENERATED ALWAYS AS IDENTITY,
    record text   NOT NULL
);
