//! What a model's answer is made of, as it comes in.

use std::time::Duration;

use super::config::Price;
use super::request::{Reply, ToolCall};

/// Something of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// Words.
    Text(String),
    /// Words of thought.
    Thought(String),
    /// The model has begun to write the call of a tool. It may be a while until its arguments are complete, and the
    /// call may never come.
    Calling {
        /// The id that the call will have.
        id: String,
        /// The tool.
        name: String,
    },
    /// A tool is called. All of them come when the model has said what it says.
    ToolCall(ToolCall),
    /// What the answer used.
    Usage(Usage),
    /// Nothing has come yet, and the provider is asked again after a while.
    Retrying {
        /// Which attempt failed, from 1.
        attempt: u32,
        /// How long the pause is.
        wait: Duration,
        /// What went wrong.
        why: String,
    },
    /// The model does not take this, and is asked again without.
    LeftOut {
        /// What it is.
        what: String,
        /// What was said of it.
        why: String,
    },
    /// The answer is complete. Nothing follows.
    Finished {
        /// Why it ends here.
        reason: FinishReason,
        /// The whole of it, for the next request.
        reply: Reply,
    },
}

/// Why an answer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// All is said.
    Stop,
    /// Tools are called, and the model waits for what they say.
    ToolUse,
    /// It may not be longer.
    Length,
    /// The model, or a filter behind it, will not say more.
    Refusal,
    /// As the provider calls it.
    Other(String),
}

/// How many tokens an answer used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Read, all in all.
    pub input: u64,
    /// Those of them that came from the provider's cache.
    pub cached: u64,
    /// Those of them that were put into the provider's cache.
    pub cache_written: u64,
    /// Written, thoughts included.
    pub output: u64,
    /// What that costs in US dollars, if all its prices are known.
    pub cost: Option<f64>,
}

impl Usage {
    /// The same with its cost.
    #[must_use]
    pub(super) fn priced(self, price: Option<&Price>) -> Self {
        Self { cost: price.and_then(|price| self.cost_at(price)), ..self }
    }

    /// A price that is not known makes no cost, rather than a wrong one.
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
    fn a_cost_is_told_only_if_every_price_is_known() {
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
