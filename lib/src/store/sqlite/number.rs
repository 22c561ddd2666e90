//! Numbers as SQLite has them: signed. Ours never come near the border.

use rethread_core::Seq;

/// A number to be stored.
pub(super) fn put(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A sequence number to be stored.
pub(super) fn put_seq(seq: Seq) -> i64 {
    put(seq.0)
}

/// A number that was stored.
pub(super) fn got(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A sequence number that was stored.
pub(super) fn got_seq(number: i64) -> Seq {
    Seq(got(number))
}
