//! Random moments and choices of a test, which can be had again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Sets the random numbers, to have the same moments again.
const SEED: &str = "RETHREAD_TEST_SEED";

/// Random moments.
pub struct Moments {
    seed: u64,
    state: u64,
}

impl Moments {
    /// Random numbers that differ from those of another `salt`.
    #[must_use]
    pub fn new(salt: u64) -> Self {
        let given = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
        let now =
            || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| u64::from(time.subsec_nanos()));
        let seed = given.unwrap_or_else(now);
        Self { seed, state: (seed + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// A time up to the longest.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros((self.random() >> 8) % micros)
    }

    /// A number below another.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from((self.random() >> 8) % end.max(1) as u64).unwrap_or(0)
    }

    /// A random number.
    pub fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// What to say of a failure, with the number of a round.
    #[must_use]
    pub fn label(&self, round: usize) -> String {
        format!("round {round}, {SEED}={}", self.seed)
    }
}
