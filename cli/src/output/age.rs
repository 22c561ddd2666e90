//! Times for people: how long ago something was.

use rethread_core::Millis;

const SECOND: Millis = 1000;
const MINUTE: Millis = 60 * SECOND;
const HOUR: Millis = 60 * MINUTE;
const DAY: Millis = 24 * HOUR;

/// How long ago a time was, in one unit: `5 min`.
pub(crate) fn age(now: Millis, then: Millis) -> String {
    let ago = now.saturating_sub(then);
    let units = [
        (365 * DAY, "year", "years"),
        (30 * DAY, "month", "months"),
        (7 * DAY, "week", "weeks"),
        (DAY, "day", "days"),
        (HOUR, "h", "h"),
        (MINUTE, "min", "min"),
    ];
    let unit = units.into_iter().find(|(length, ..)| ago >= *length);
    match unit {
        Some((length, one, many)) => {
            let count = ago / length;
            format!("{count} {}", if count == 1 { one } else { many })
        }
        None => "now".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        let ages =
            [0, 59 * SECOND, MINUTE, 59 * MINUTE, 3 * HOUR, DAY, 6 * DAY, 20 * DAY, 90 * DAY, 800 * DAY]
                .map(|ago| age(1_000 * DAY, 1_000 * DAY - ago));
        let expected =
            ["now", "now", "1 min", "59 min", "3 h", "1 day", "6 days", "2 weeks", "3 months", "2 years"];
        assert_eq!(ages, expected);
        assert_eq!(age(0, 5), "now", "a clock that was set back");
    }
}
