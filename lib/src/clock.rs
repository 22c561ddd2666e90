//! Reads the clock, and writes and reads times as the protocol has them. The core does neither.

use std::num::NonZeroU8;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rethread_core::Millis;
use rethread_core::lease::BootMillis;
use time::OffsetDateTime;
use time::format_description::well_known::iso8601::{Config, EncodedConfig, TimePrecision};
use time::format_description::well_known::{Iso8601, Rfc3339};

/// The last millisecond of the year 9999: RFC 3339 has four digits for the year.
const LAST: Millis = 253_402_300_799_999;

/// RFC 3339 with milliseconds, which is also ISO 8601.
const MILLISECONDS: EncodedConfig =
    Config::DEFAULT.set_time_precision(TimePrecision::Second { decimal_digits: NonZeroU8::new(3) }).encode();

/// The time in milliseconds since 1970; 0 if the clock shows a time before that.
#[must_use]
pub fn now() -> Millis {
    u64::try_from(since_1970(SystemTime::now()).as_millis()).unwrap_or(u64::MAX)
}

/// The time since the machine started, including the time that it slept. Nobody can set this clock.
#[must_use]
pub fn since_boot() -> BootMillis {
    #[cfg(target_os = "linux")]
    const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
    // On macOS it includes sleep.
    #[cfg(not(target_os = "linux"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is valid for the call, and the clock exists.
    unsafe { libc::clock_gettime(CLOCK, &raw mut time) };
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    BootMillis(seconds.unwrap_or(0) * 1000 + nanoseconds.unwrap_or(0) / 1_000_000)
}

pub(crate) fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Writes a time in RFC 3339, in UTC, with milliseconds. A time after the year 9999 is written as the end of that year.
#[must_use]
pub fn rfc3339(at: Millis) -> String {
    let nanoseconds = i128::from(at.min(LAST)) * 1_000_000;
    let time =
        OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).expect("years 1970 to 9999 are in range");
    time.format(&Iso8601::<MILLISECONDS>).expect("a time in UTC can always be written")
}

/// Reads a time in RFC 3339 with any offset; nothing if it is none, or before 1970.
#[must_use]
pub fn from_rfc3339(text: &str) -> Option<Millis> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Millis::try_from(time.unix_timestamp_nanos() / 1_000_000)
        .ok()
        .filter(|_| time >= OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_shows_1970() {
        assert_eq!(since_1970(UNIX_EPOCH - Duration::from_secs(1)), Duration::ZERO);
    }

    #[test]
    fn times() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_794_767_959_255), "2026-11-15T18:39:19.255Z");
        assert_eq!(rfc3339(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        for at in [0, 951_782_400_000, 1_794_767_959_255, 1_709_251_199_999, LAST] {
            assert_eq!(from_rfc3339(&rfc3339(at)), Some(at));
        }
        assert_eq!(rfc3339(u64::MAX), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn times_as_others_write_them() {
        for (text, at) in [
            ("2024-02-29T23:59:59+01:00", Some(1_709_247_599_000)),
            ("2024-02-29T23:59:59-00:30", Some(1_709_252_999_000)),
            ("2024-02-29T23:59:59.5Z", Some(1_709_251_199_500)),
            ("2024-02-29T23:59:59.123456789Z", Some(1_709_251_199_123)),
            ("2024-02-29t23:59:59z", Some(1_709_251_199_000)),
            ("2024-02-29 23:59:59Z", Some(1_709_251_199_000)),
            ("1970-01-01T01:00:00+01:00", Some(0)),
            ("1970-01-01T00:59:59+01:00", None),
            ("1969-12-31T23:59:59.9999Z", None),
            ("2023-02-29T00:00:00Z", None),
            ("2024-13-01T00:00:00Z", None),
            ("2024-02-29T24:00:00Z", None),
            ("2024-02-29T23:59:59", None),
            ("10000-01-01T00:00:00Z", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(from_rfc3339(text), at, "{text}");
        }
    }
}
