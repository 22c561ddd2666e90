//! Errors inside the PostgreSQL store, before the operation and the address are added to them: what may be tried again, and
//! what the user has to do.

use std::error::Error;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use super::address::PostgresAddress;
use crate::store::{DatabaseProblem, StoreError};

/// A refusal of the store itself, or an error of the database or the connection.
#[derive(Debug)]
pub(super) enum PgFault {
    /// The operation is not allowed.
    Refused(StoreError),
    /// The database or the connection failed.
    Failed(tokio_postgres::Error),
    /// No connection came free or was made in time.
    NoConnection(String),
    /// An error that several calls share: what is wrong, and the words of the database.
    Reported { problem: DatabaseProblem, said: String },
}

/// What may follow an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// The same again: another transaction was in the way.
    Retry,
    /// The same again on another connection, when there is one. What was sent may have been carried out.
    Reconnect,
    /// Nothing.
    GiveUp,
}

impl From<StoreError> for PgFault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<tokio_postgres::Error> for PgFault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<PoolError> for PgFault {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Failed(error),
            error @ (PoolError::Timeout(_)
            | PoolError::Closed
            | PoolError::NoRuntimeSpecified
            | PoolError::PostCreateHook(_)) => Self::NoConnection(error.to_string()),
        }
    }
}

impl PgFault {
    /// The same fault for another waiting call.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::Refused(error) => Self::NoConnection(error.to_string()),
            Self::NoConnection(why) => Self::NoConnection(why.clone()),
            Self::Failed(error) => Self::Reported { problem: problem(error), said: said_text(error) },
            Self::Reported { problem, said } => Self::Reported { problem: *problem, said: said.clone() },
        }
    }

    /// What may follow.
    pub(super) fn next_step(&self) -> NextStep {
        match self {
            Self::Refused(_) | Self::Reported { .. } => NextStep::GiveUp,
            Self::NoConnection(_) => NextStep::Reconnect,
            Self::Failed(error) => match error.code() {
                Some(code) => step_after(code),
                None if is_bad_certificate(error) || error.to_string().contains("configuration") => {
                    NextStep::GiveUp
                }
                // Without a code it is the connection, or an error of ours in the use of the driver.
                None if error.is_closed() || has_io_cause(error) => NextStep::Reconnect,
                None => NextStep::GiveUp,
            },
        }
    }

    /// Converts to a store error that names the operation and the database.
    pub(super) fn at(self, what: &str, address: &PostgresAddress) -> StoreError {
        let (problem, source): (_, Box<dyn Error + Send + Sync>) = match self {
            Self::Refused(error) => return error,
            Self::NoConnection(why) => (DatabaseProblem::Unreachable, why.into()),
            Self::Reported { problem, said } => (problem, said.into()),
            Self::Failed(error) => (problem(&error), said(error)),
        };
        StoreError::Database { context: what.to_owned(), address: address.to_string(), problem, source }
    }
}

fn step_after(code: &SqlState) -> NextStep {
    match code.code() {
        // Serialization failure, deadlock, a lock that was waited for too long.
        "40001" | "40P01" | "55P03" => NextStep::Retry,
        // A shutdown or crash of the server, starting up, too many connections; an idle transaction that was ended.
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25P03" | "40003" => NextStep::Reconnect,
        // A class of its own for lost connections.
        code if code.starts_with("08") => NextStep::Reconnect,
        // A server that has become a standby: the next connection may find the new primary.
        "25006" => NextStep::Reconnect,
        _ => NextStep::GiveUp,
    }
}

fn problem(error: &tokio_postgres::Error) -> DatabaseProblem {
    let Some(code) = error.code() else {
        return match error {
            error if is_bad_certificate(error) => DatabaseProblem::Certificate,
            error if error.to_string().contains("TLS") => DatabaseProblem::NoTls,
            error if error.to_string().contains("configuration") => DatabaseProblem::Password,
            _ => DatabaseProblem::Unreachable,
        };
    };
    match code.code() {
        "28P01" => DatabaseProblem::Password,
        "28000" => DatabaseProblem::Role,
        "3D000" => DatabaseProblem::NoDatabase,
        "42501" => DatabaseProblem::Right,
        "25006" => DatabaseProblem::ReadOnly,
        "53100" => DatabaseProblem::DiskFull,
        "53300" => DatabaseProblem::TooManyConnections,
        "40001" | "40P01" | "55P03" => DatabaseProblem::Contention,
        "57P01" | "57P02" | "57P03" => DatabaseProblem::Unreachable,
        code if code.starts_with("08") => DatabaseProblem::Unreachable,
        _ => DatabaseProblem::Other,
    }
}

/// The error of the server in its own words, without the frame of the driver.
fn said(error: tokio_postgres::Error) -> Box<dyn Error + Send + Sync> {
    match error.as_db_error() {
        Some(said) => said.message().to_owned().into(),
        None => error.into(),
    }
}

fn said_text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => crate::wire::with_causes(error),
    }
}

fn causes(error: &tokio_postgres::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

fn has_io_cause(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.contains("connect")
        || text.contains("communicating")
        || causes(error).any(|cause| cause.is::<std::io::Error>())
}

fn is_bad_certificate(error: &tokio_postgres::Error) -> bool {
    let is_certificate = |cause: &(dyn Error + 'static)| {
        cause
            .downcast_ref::<rustls::Error>()
            .is_some_and(|error| matches!(error, rustls::Error::InvalidCertificate(_)))
            || cause.to_string().contains("certificate")
    };
    causes(error).any(is_certificate)
}
