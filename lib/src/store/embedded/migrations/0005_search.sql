-- Searching. The index is in a file of its own, `search.<generation>.db`, which can be dropped and made anew.

ALTER TABLE store ADD COLUMN search_generation INTEGER NOT NULL DEFAULT 1;

-- When old sessions were last pruned, in milliseconds since 1970.
ALTER TABLE store ADD COLUMN pruned_at INTEGER NOT NULL DEFAULT 0;

-- Sessions whose text in the index has to be looked at again, because they or their forks were deleted. What was deleted
-- is erased from the index before its row here is.
CREATE TABLE search_pending (session INTEGER PRIMARY KEY REFERENCES session (key));

-- The agents that have served a session.
CREATE INDEX native_by_session ON native (session, agent);
