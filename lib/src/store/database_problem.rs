//! What can be wrong with the database server of a shared store, and what to do about it.

/// What is wrong with a database server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseProblem {
    /// It cannot be reached, is starting or shutting down, or does not answer.
    Unreachable,
    /// It has another password for this role.
    Password,
    /// It does not know the role, or does not let it in from here.
    Role,
    /// It has no such database.
    NoDatabase,
    /// Its certificate is not valid for this host.
    Certificate,
    /// It does not speak TLS.
    NoTls,
    /// The role lacks a right.
    Right,
    /// It is a standby, or was made read-only.
    ReadOnly,
    /// Its disk is full.
    DiskFull,
    /// It has no connection left.
    TooManyConnections,
    /// Other transactions were in the way again and again.
    Contention,
    /// It is older than the versions that are supported, or not set up as it must be.
    Unsuitable,
    /// Any other error.
    Other,
}

impl DatabaseProblem {
    /// Advice for the user.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::Unreachable => "check host and port of the store, and that the database runs",
            Self::Password => "check the password in the address of the store",
            Self::Role => "check the user in the address of the store, and pg_hba.conf of the database",
            Self::NoDatabase => "create it: CREATE DATABASE name OWNER role",
            Self::Certificate => {
                "name the authority that signed it: sslrootcert=FILE; the host must be as in the certificate"
            }
            Self::NoTls => {
                "set up TLS in the database; sslmode=disable in the address of the store does without"
            }
            Self::Right => {
                "let the role own the schema: GRANT CREATE ON DATABASE name TO role, or CREATE SCHEMA rethread AUTHORIZATION role"
            }
            Self::ReadOnly => {
                "name the primary in the address of the store, or several hosts with target_session_attrs=read-write"
            }
            Self::DiskFull => "free space on the disk of the database, then try again",
            Self::TooManyConnections => "raise max_connections of the database, or use fewer hosts",
            Self::Contention => "try again",
            Self::Unsuitable => "use PostgreSQL 15 or newer, with a database in UTF-8",
            Self::Other => "the log of the database may say more",
        }
    }
}
