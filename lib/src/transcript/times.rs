//! Times and durations for people.

use rethread_core::Millis;

use crate::clock;

/// A time in UTC, to the minute: `2026-01-31 12:30`.
#[must_use]
pub fn day_and_minute(at: Millis) -> String {
    clock::rfc3339(at)[..16].replace('T', " ")
}

/// A time span in one or two units: `2 min 5 s`. Parts of a second are left out.
pub(super) fn span(millis: Millis) -> String {
    let seconds = millis / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_spans() {
        assert_eq!(day_and_minute(951_782_400_000), "2000-02-29 00:00");
        assert_eq!(day_and_minute(u64::MAX), "9999-12-31 23:59");
        let spans = [5_900, 60_000, 125_999, 3_720_000].map(span);
        assert_eq!(spans, ["5 s", "1 min", "2 min 5 s", "1 h 2 min"]);
    }
}
