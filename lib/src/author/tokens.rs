//! Token usage of a turn, reported at its end.

use std::ops::AddAssign;

use serde_json::{Value, json};

/// The number of tokens used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All input tokens.
    pub input: u64,
    /// All output tokens.
    pub output: u64,
    /// Input tokens read from a cache.
    pub cached_read: u64,
    /// Input tokens written to a cache.
    pub cached_write: u64,
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, more: Self) {
        self.input += more.input;
        self.output += more.output;
        self.cached_read += more.cached_read;
        self.cached_write += more.cached_write;
    }
}

impl Tokens {
    /// Encodes the usage; `None` if nothing was used.
    pub(super) fn written(self) -> Option<Value> {
        let total = self.input + self.output;
        let usage = || {
            json!({"totalTokens": total, "inputTokens": self.input, "outputTokens": self.output,
            "cachedReadTokens": self.cached_read, "cachedWriteTokens": self.cached_write})
        };
        (total > 0).then(usage)
    }
}
