//! One-time codes, with which a web page gets its token: made for a process of the user, used once, for two minutes. Only their
//! hashes are kept, in memory. The time is one that nobody can set.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rethread::lock::locked;
use subtle::ConstantTimeEq;

use crate::tokens::{TokenError, hash_of};

/// How long a code works.
const LIFE: Duration = Duration::from_secs(120);
/// How many codes are kept; one more replaces the oldest.
const MOST: usize = 64;
/// How many random bytes a code has.
const RANDOM_BYTES: usize = 32;

/// The codes of a server that were not used yet.
#[derive(Debug, Default)]
pub struct OneTimeCodes(Mutex<VecDeque<WaitingCode>>);

#[derive(Debug)]
struct WaitingCode {
    hash: String,
    until: Instant,
    token_life: Duration,
}

impl OneTimeCodes {
    /// Makes a code, which can be exchanged for a token that works for this long.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn make(&self, token_life: Duration) -> Result<String, TokenError> {
        self.make_at(token_life, Instant::now())
    }

    fn make_at(&self, token_life: Duration, now: Instant) -> Result<String, TokenError> {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random).map_err(|_| TokenError::NoRandomness)?;
        let text = URL_SAFE_NO_PAD.encode(random);
        let mut codes = locked(&self.0);
        codes.retain(|code| now < code.until);
        if codes.len() >= MOST {
            codes.pop_front();
        }
        codes.push_back(WaitingCode { hash: hash_of(&text), until: now + LIFE, token_life });
        Ok(text)
    }

    /// Takes a code that works now; it does not work again. Gives how long its token is to work.
    pub(crate) fn take(&self, text: &str, now: Instant) -> Option<Duration> {
        let hash = hash_of(text);
        let mut codes = locked(&self.0);
        let mut found = None;
        // All of them are compared, each in constant time: the time says nothing of which one it was.
        for (at, code) in codes.iter().enumerate() {
            if bool::from(code.hash.as_bytes().ct_eq(hash.as_bytes())) {
                found = Some(at);
            }
        }
        let code = codes.remove(found?)?;
        (now < code.until).then_some(code.token_life)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_code_works_once_and_for_two_minutes() {
        assert_eq!(LIFE, Duration::from_secs(2 * 60));
        let (codes, now) = (OneTimeCodes::default(), Instant::now());
        let one = codes.make_at(HOUR, now).unwrap();
        let other = codes.make_at(HOUR, now).unwrap();
        assert!(one.len() >= 43 && one != other, "256 random bits");
        assert_eq!(codes.take("", now), None);
        assert_eq!(codes.take(&one[1..], now), None);
        assert_eq!(codes.take(&one, now + LIFE - Duration::from_millis(1)), Some(HOUR));
        assert_eq!(codes.take(&one, now), None, "it was used");
        assert_eq!(codes.take(&other, now + LIFE), None, "it is too old");
        assert_eq!(codes.take(&other, now), None, "and does not work again");
    }

    #[test]
    fn their_number_is_bounded_and_their_texts_are_not_kept() {
        let (codes, now) = (OneTimeCodes::default(), Instant::now());
        let first = codes.make_at(HOUR, now).unwrap();
        let all: Vec<String> = (0..MOST).map(|_| codes.make_at(HOUR, now).unwrap()).collect();
        assert_eq!(locked(&codes.0).len(), MOST);
        assert!(!format!("{codes:?}").contains(&all[0]));
        assert_eq!(codes.take(&first, now), None, "the oldest was replaced");
        assert!(all.iter().all(|code| codes.take(code, now).is_some()));
    }
}
