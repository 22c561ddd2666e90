//! What the work on a prompt used, told when the turn is over.

use std::ops::AddAssign;

use serde_json::{Value, json};

/// How many tokens of a model some work used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read, all in all.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Those of the input that came from a cache.
    pub cached_read: u64,
    /// Those of the input that were put into a cache.
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
    /// As the end of a turn tells it; nothing if nothing was used.
    pub(super) fn written(self) -> Option<Value> {
        let total = self.input + self.output;
        let usage = || {
            json!({"totalTokens": total, "inputTokens": self.input, "outputTokens": self.output,
            "cachedReadTokens": self.cached_read, "cachedWriteTokens": self.cached_write})
        };
        (total > 0).then(usage)
    }
}
