//! Converts between unsigned numbers and the signed integers of databases. Values never reach the limit.

use rethread_core::Seq;

pub(super) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn seq_to_sql(seq: Seq) -> i64 {
    to_sql(seq.0)
}

pub(super) fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(super) fn seq_from_sql(number: i64) -> Seq {
    Seq(from_sql(number))
}
