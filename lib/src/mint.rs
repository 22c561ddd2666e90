//! Mints ids and reads the clock, for the parts that feed the core: the core itself does neither.

use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rethread_core::{AskId, MessageId, Millis, QuestionId, SessionId};
use uuid::{ContextV7, Timestamp, Uuid};

/// A new session id, sortable by time.
#[must_use]
pub fn session_id() -> SessionId {
    SessionId(unique().to_string())
}

/// A new message id.
#[must_use]
pub fn message_id() -> MessageId {
    MessageId(unique().to_string())
}

/// A new question id.
#[must_use]
pub fn question_id() -> QuestionId {
    QuestionId(unique().to_string())
}

/// A new id for a request to the agent.
#[must_use]
pub fn ask_id() -> AskId {
    AskId(unique().to_string())
}

/// A new terminal id.
#[must_use]
pub fn terminal_id() -> String {
    format!("term-{}", unique())
}

/// Something that is like nothing else, sortable by time.
#[must_use]
pub fn unique() -> Uuid {
    unique_at(SystemTime::now())
}

/// The same at a time. Not `Uuid::now_v7`, which panics on a clock before 1970.
fn unique_at(time: SystemTime) -> Uuid {
    static COUNTER: Mutex<ContextV7> = Mutex::new(ContextV7::new());
    let since = since_1970(time);
    Uuid::new_v7(Timestamp::from_unix(&COUNTER, since.as_secs(), since.subsec_nanos()))
}

/// Now; 1970 on a clock that stands before that.
#[must_use]
pub fn now() -> Millis {
    u64::try_from(since_1970(SystemTime::now()).as_millis()).unwrap_or(u64::MAX)
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A time as the protocol writes it, in UTC. It has four digits for the year.
#[must_use]
pub fn rfc3339(at: Millis) -> String {
    const LAST: Millis = 253_402_300_799_999;
    let at = at.min(LAST);
    let (days, ms) = (at / 86_400_000, at % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

/// Reads a time as the protocol writes it.
#[must_use]
pub fn from_rfc3339(text: &str) -> Option<Millis> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let rest = text.get(19..)?;
    let (fraction, zone) = rest.split_at(rest.find(['Z', 'z', '+', '-'])?);
    let ms = fraction.strip_prefix('.').map_or(0, |digits| {
        format!("{digits:0<3}").get(..3).and_then(|digits| digits.parse().ok()).unwrap_or(0)
    });
    let local = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + ms;
    let offset = match zone.get(1..).map(|zone| (zone.get(..2), zone.get(3..5))) {
        Some((Some(hours), Some(minutes))) => {
            (hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?) * 60_000
        }
        _ => 0,
    };
    if zone.starts_with('-') { Some(local + offset) } else { local.checked_sub(offset) }
}

/// Counts the days from 1970 to a date.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date of a day counted from 1970. Years are taken to begin in March, so that a leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_in_order_at_any_time() {
        let times = [UNIX_EPOCH - Duration::from_secs(1), UNIX_EPOCH, SystemTime::now()];
        for time in times {
            let ids: Vec<_> = (0..1000).map(|_| unique_at(time)).collect();
            assert!(ids.is_sorted_by(|one, next| one < next), "{time:?}");
        }
        assert_eq!(since_1970(times[0]), Duration::ZERO);
    }

    #[test]
    fn times() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_794_767_959_255), "2026-11-15T18:39:19.255Z");
        assert_eq!(rfc3339(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        for at in [0, 951_782_400_000, 1_794_767_959_255, 1_709_251_199_999] {
            assert_eq!(from_rfc3339(&rfc3339(at)), Some(at));
        }
        assert_eq!(from_rfc3339("2024-02-29T23:59:59+01:00"), Some(1_709_247_599_000));
        assert_eq!(from_rfc3339("2024-02-29T23:59:59.5Z"), Some(1_709_251_199_500));
        assert_eq!(from_rfc3339("yesterday"), None);
        assert_eq!(rfc3339(u64::MAX), "9999-12-31T23:59:59.999Z");
    }
}
