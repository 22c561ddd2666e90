//! Tokens and cost, as agents report them: tokens at the end of a turn, the cost of the session so far at any time.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use rethread_core::{Binding, Json};
use serde::Serialize;

/// The tokens of a turn or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnTokens {
    /// All input tokens.
    pub input: u64,
    /// All output tokens.
    pub output: u64,
    /// Input tokens read from a cache.
    pub cached_read: u64,
    /// Input tokens written to a cache.
    pub cached_write: u64,
    /// All tokens.
    pub total: u64,
}

impl TurnTokens {
    /// Reads the state at the end of a turn; nothing if the agent reported no usage.
    #[must_use]
    pub fn read(state: &Json) -> Option<Self> {
        let usage = state.fields().take("usage")?.fields();
        let count = |name: &str| usage.get(name).and_then(|count| count.read::<u64>().ok());
        let (input, output) = (count("inputTokens"), count("outputTokens"));
        let total = count("totalTokens").or_else(|| Some(input?.saturating_add(output?)))?;
        Some(Self {
            input: input.unwrap_or(0),
            output: output.unwrap_or(0),
            cached_read: count("cachedReadTokens").unwrap_or(0),
            cached_write: count("cachedWriteTokens").unwrap_or(0),
            total,
        })
    }
}

impl AddAssign for TurnTokens {
    fn add_assign(&mut self, more: Self) {
        for (sum, more) in [
            (&mut self.input, more.input),
            (&mut self.output, more.output),
            (&mut self.cached_read, more.cached_read),
            (&mut self.cached_write, more.cached_write),
            (&mut self.total, more.total),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Amounts of money by currency.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct CostSum(BTreeMap<String, f64>);

impl CostSum {
    /// Adds an amount.
    pub fn add(&mut self, amount: f64, currency: &str) {
        *self.0.entry(currency.to_owned()).or_default() += amount;
    }

    /// Adds amounts.
    pub fn add_all(&mut self, more: &Self) {
        more.0.iter().for_each(|(currency, amount)| self.add(*amount, currency));
    }

    /// Returns whether nothing was reported.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The amounts with their currencies.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(currency, amount)| (currency.as_str(), *amount))
    }

    /// The amounts for people: `0.42 USD`; empty if nothing was reported.
    #[must_use]
    pub fn text(&self) -> String {
        let one = |(currency, amount): (&str, f64)| {
            let digits = if amount.abs() < 0.095 && amount != 0.0 { 4 } else { 2 };
            format!("{amount:.digits$} {currency}")
        };
        self.iter().map(one).collect::<Vec<_>>().join(" + ")
    }
}

/// Finds what each turn has cost: agents report the cost of their session so far.
#[derive(Clone, Debug, Default)]
pub(super) struct CostMeter {
    /// The amount that was reported last.
    last: f64,
    since_turn: CostSum,
}

impl CostMeter {
    /// Takes in a usage update.
    pub(super) fn reported(&mut self, usage: &Json) {
        let Some(cost) = usage.fields().take("cost").map(|cost| cost.fields()) else { return };
        let Some(amount) = cost.get("amount").and_then(|amount| amount.read::<f64>().ok()) else { return };
        if !amount.is_finite() || amount < 0.0 {
            return;
        }
        let currency = cost.text("currency").unwrap_or_else(|| "USD".to_owned());
        // An agent that counts anew has begun a new session of its own.
        let more = if amount >= self.last { amount - self.last } else { amount };
        self.last = amount;
        self.since_turn.add(more, &currency);
    }

    /// An agent has the session from here on. A new session of its own counts from nothing.
    pub(super) fn bound(&mut self, binding: Binding) {
        match binding {
            Binding::Fresh | Binding::Reseeded => self.last = 0.0,
            Binding::Resumed | Binding::Loaded => {}
        }
    }

    /// Takes the cost since the last call.
    pub(super) fn take(&mut self) -> CostSum {
        std::mem::take(&mut self.since_turn)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cost_of_a_turn_is_the_difference() {
        let mut meter = CostMeter::default();
        let report = |amount: f64| Json::from(json!({"cost": {"amount": amount, "currency": "USD"}}));
        meter.reported(&report(0.25));
        meter.reported(&report(0.5));
        assert_eq!(meter.take().text(), "0.50 USD");
        meter.reported(&report(0.75));
        assert_eq!(meter.take().text(), "0.25 USD");
        meter.reported(&report(0.01));
        assert_eq!(meter.take().text(), "0.0100 USD", "a new session of the agent");
        for nothing in [
            json!({}),
            json!({"cost": null}),
            json!({"cost": {"amount": -1}}),
            json!({"cost": {"amount": "1"}}),
        ] {
            meter.reported(&nothing.into());
        }
        assert!(meter.take().is_empty());
    }

    #[test]
    fn tokens_are_read_from_the_final_state() {
        let read = |usage: serde_json::Value| TurnTokens::read(&json!({"usage": usage}).into());
        let all = read(json!({"totalTokens": 9, "inputTokens": 5, "outputTokens": 4, "cachedReadTokens": 2}));
        assert_eq!(all, Some(TurnTokens { input: 5, output: 4, cached_read: 2, cached_write: 0, total: 9 }));
        assert_eq!(read(json!({"inputTokens": 5, "outputTokens": 4})).map(|tokens| tokens.total), Some(9));
        assert_eq!(read(json!({"inputTokens": 5})), None);
        assert_eq!(read(json!("many")), None);
    }
}
