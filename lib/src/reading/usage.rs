//! The usage of all sessions as clients get it: a row for each day, agent and model.

use rethread_core::Json;
use serde_json::{Value, json};

use crate::store::{Store, StoreError};
use crate::transcript::{UsageFilter, UsageKey, UsageSum, UsageSums};

/// Sums up turns. If there are too many rows for `room` bytes, the oldest days are left out.
pub(crate) async fn usage(store: &dyn Store, filter: &UsageFilter, room: usize) -> Result<Json, StoreError> {
    let sums = UsageSums::read(store, filter, |_| {}).await?;
    let mut left = room;
    let mut rows: Vec<_> = sums
        .iter()
        .rev()
        .map(|(key, sum)| row(key, sum))
        .map_while(|row| {
            left = left.checked_sub(row.to_string().len() + 1)?;
            Some(row)
        })
        .collect();
    rows.reverse();
    Ok(json!({"rows": rows}).into())
}

/// A turn may have costs in several currencies; almost none has.
fn row(key: &UsageKey, sum: &UsageSum) -> Value {
    let mut row = json!({
        "day": key.day,
        "agent": key.agent,
        "model": key.model,
        "turns": sum.turns,
        "inputTokens": sum.tokens.map_or(0, |tokens| tokens.input),
        "outputTokens": sum.tokens.map_or(0, |tokens| tokens.output),
    });
    let costs: Vec<_> =
        sum.cost.iter().map(|(currency, amount)| json!({"amount": amount, "currency": currency})).collect();
    if let Some(first) = costs.first() {
        row["cost"] = first.clone();
    }
    if costs.len() > 1 {
        row["costs"] = json!(costs);
    }
    row
}
