//! The program that is measured: the one that `RETHREAD_BENCH_PROGRAM` names, else the one that cargo builds for the bench. That one
//! is larger than the program that users have, because the tests of the command need more of the libraries that both use.

use std::ffi::OsString;

/// The path of the program.
pub(crate) fn path() -> OsString {
    std::env::var_os("RETHREAD_BENCH_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_rethread").into())
}
