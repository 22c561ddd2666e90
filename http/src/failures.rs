//! Counts wrong tokens by address. Whoever sends many gets another answer; a right token always works, so that nobody can lock
//! the owner out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rethread::lock::locked;

/// How many wrong tokens an address may send in [`WINDOW`].
const MOST: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// How many addresses are remembered.
const ADDRESSES: usize = 4096;

/// Wrong tokens by address.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<IpAddr, (Instant, u32)>>);

/// Whether an address has sent too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempts {
    /// It has not.
    Few,
    /// It has.
    TooMany,
}

impl Failures {
    /// Counts one more. Says whether there are too many.
    pub(crate) fn add(&self, address: IpAddr, now: Instant) -> Attempts {
        let mut counts = locked(&self.0);
        if counts.len() >= ADDRESSES {
            counts.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
        }
        if counts.len() >= ADDRESSES && !counts.contains_key(&address) {
            // Somebody has very many addresses; the memory stays bounded.
            return Attempts::TooMany;
        }
        let (since, count) = counts.entry(address).or_insert((now, 0));
        if now.duration_since(*since) >= WINDOW {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        if *count > MOST { Attempts::TooMany } else { Attempts::Few }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_ten_in_a_minute() {
        assert_eq!((MOST, WINDOW), (10, Duration::from_secs(60)));
        let (failures, now) = (Failures::default(), Instant::now());
        let (one, other) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        assert!((0..MOST).all(|_| failures.add(one, now) == Attempts::Few));
        assert_eq!(failures.add(one, now), Attempts::TooMany);
        assert_eq!(failures.add(other, now), Attempts::Few);
        assert_eq!(failures.add(one, now + WINDOW), Attempts::Few);
    }
}
