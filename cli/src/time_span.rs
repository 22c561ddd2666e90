//! Times on the command line: `90d` for a time span, or a date.

use std::str::FromStr;

use rethread::clock;
use rethread_core::Millis;

const MINUTE: Millis = 60_000;

/// A span such as `90d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSpan(pub(crate) Millis);

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (count, unit) = text.split_at(digits);
        let unit = match unit.trim() {
            "min" | "m" => Some(MINUTE),
            "h" => Some(60 * MINUTE),
            "d" => Some(24 * 60 * MINUTE),
            "w" => Some(7 * 24 * 60 * MINUTE),
            _ => None,
        };
        let span = count.parse::<Millis>().ok().zip(unit).and_then(|(count, unit)| count.checked_mul(unit));
        span.map(Self).ok_or_else(|| "expected a number and a unit, such as 30min, 12h, 90d or 2w".to_owned())
    }
}

/// A time before now, or at a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointInTime {
    /// So long before now.
    Ago(TimeSpan),
    /// At this time.
    At(Millis),
}

impl PointInTime {
    /// The time in milliseconds since 1970.
    pub(crate) fn at(self, now: Millis) -> Millis {
        match self {
            Self::Ago(TimeSpan(span)) => now.saturating_sub(span),
            Self::At(time) => time,
        }
    }
}

impl FromStr for PointInTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = clock::from_rfc3339(text).or_else(|| clock::from_rfc3339(&format!("{text}T00:00:00Z")));
        match (time, text.parse()) {
            (Some(time), _) => Ok(Self::At(time)),
            (None, Ok(span)) => Ok(Self::Ago(span)),
            (None, Err(_)) => {
                Err("expected a time span such as 12h or 90d, or a date such as 2026-01-31".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_a_unit() {
        let span = |text: &str| text.parse::<TimeSpan>().map(|span| span.0 / MINUTE);
        assert_eq!(
            [span("5min"), span("2h"), span("1 d"), span("2w")],
            [Ok(5), Ok(120), Ok(1440), Ok(20160)]
        );
        for wrong in
            ["", "5", "d", "-1d", "1.5h", "1y", "99999999999999999999d", "18446744073709551615w", "٣d"]
        {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn points_are_spans_or_dates() {
        let at = |text: &str| text.parse::<PointInTime>().map(|point| point.at(10_000_000));
        assert_eq!(at("1min"), Ok(9_940_000));
        assert_eq!(at("1w"), Ok(0), "not before 1970");
        assert_eq!(at("2000-02-29"), Ok(951_782_400_000));
        assert_eq!(at("2000-02-29T01:00:00+01:00"), Ok(951_782_400_000));
        assert!(at("2000-02-30").is_err() && at("yesterday").is_err());
    }
}
