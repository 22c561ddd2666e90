//! The events of a model's answer, the reasons why it ends, and its usage with cost.

use std::time::Duration;

use super::config::Price;
use super::request::{Reply, ToolCall};

/// An event of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// A piece of text.
    Text(String),
    /// A piece of thought.
    Thought(String),
    /// The model has begun a tool call. Its arguments may take a while, and the call may never be completed.
    ToolCallStarted {
        /// The id of the call.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// A complete tool call. These follow after all text.
    ToolCall(ToolCall),
    /// The tokens that the answer used.
    Usage(Usage),
    /// Nothing has arrived yet, and the request is repeated after a pause.
    Retrying {
        /// The number of the attempt that failed, from 1.
        attempt: u32,
        /// The pause.
        wait: Duration,
        /// The error.
        why: String,
    },
    /// The model does not support a feature, and the request is repeated without it.
    LeftOut {
        /// The feature.
        what: String,
        /// The provider's message.
        why: String,
    },
    /// The answer is complete. This is the last event.
    Finished {
        /// Why it ends.
        reason: FinishReason,
        /// The whole answer, for the next request.
        reply: Reply,
    },
}

/// Why an answer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The answer is complete.
    Stop,
    /// The model waits for the results of tools.
    ToolUse,
    /// The answer reached its maximum length.
    Length,
    /// The model or a filter refused to continue.
    Refusal,
    /// Another reason, in the provider's words.
    Other(String),
}

/// The tokens that an answer used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// All input tokens.
    pub input: u64,
    /// Input tokens that were read from the provider's cache.
    pub cached: u64,
    /// Input tokens that were written to the provider's cache.
    pub cache_written: u64,
    /// Output tokens, including thoughts.
    pub output: u64,
    /// The cost in US dollars, if all prices are known.
    pub cost: Option<f64>,
}

impl Usage {
    /// The same usage with its cost.
    #[must_use]
    pub(super) fn priced(self, price: Option<&Price>) -> Self {
        Self { cost: price.and_then(|price| self.cost_at(price)), ..self }
    }

    /// The cost; none if a price that it needs is unknown.
    fn cost_at(&self, price: &Price) -> Option<f64> {
        if price.up_to.is_some_and(|most| self.input > most) {
            return None;
        }
        let fresh = self.input.saturating_sub(self.cached).saturating_sub(self.cache_written);
        let parts = [
            (fresh, Some(price.input)),
            (self.output, Some(price.output)),
            (self.cached, price.cached),
            (self.cache_written, price.cache_write),
        ];
        let millionths = parts.into_iter().filter(|(tokens, _)| *tokens > 0);
        let sum =
            millionths.map(|(tokens, price)| price.map(|price| tokens as f64 * price)).sum::<Option<f64>>();
        sum.map(|sum| sum / 1_000_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Price;
    use super::Usage;

    #[test]
    fn the_cost_needs_every_price() {
        let price =
            Price { input: 2.0, output: 10.0, cached: Some(0.2), cache_write: None, up_to: Some(5_000_000) };
        let usage = Usage { input: 2_000_000, cached: 1_000_000, output: 100_000, ..Usage::default() };
        let cost = usage.priced(Some(&price)).cost.unwrap();
        assert!((cost - 3.2).abs() < 1e-9, "{cost}");
        assert_eq!(Usage { cache_written: 1, ..usage }.priced(Some(&price)).cost, None);
        assert_eq!(Usage { input: 6_000_000, ..usage }.priced(Some(&price)).cost, None);
        assert_eq!(usage.priced(None).cost, None);
    }
}
