-- When somebody asked the owner to release the session; NULL when the owner has released it or declined.
ALTER TABLE session ADD COLUMN release_asked_at INTEGER;

CREATE TRIGGER session_release_asked AFTER UPDATE OF release_asked_at ON session WHEN new.release_asked_at IS NOT NULL BEGIN
    UPDATE session SET revision = (SELECT max(revision) + 1 FROM session) WHERE key = new.key;
END;

-- The configured name of the agent that served the session last, if it has one. Never a command line.
ALTER TABLE session ADD COLUMN agent_name TEXT;
