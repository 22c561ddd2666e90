//! A store in memory, for tests and for sessions that need not outlive the process.
