//! Sums of turns, tokens and cost, by agent, model and day.

use std::collections::BTreeMap;

use rethread::clock;
use rethread::store::SessionRow;
use rethread::transcript::{CostSum, SessionOutline, TurnOutline, TurnTokens};
use rethread_core::Millis;
use serde::Serialize;
use serde_json::{Value, json};

/// The usage of some turns.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageSum {
    /// The number of turns.
    pub(crate) turns: u64,
    /// How many of them have no token counts.
    pub(crate) turns_without_tokens: u64,
    /// How many of them have no cost.
    turns_without_cost: u64,
    /// The tokens; nothing if none were reported.
    pub(crate) tokens: Option<TurnTokens>,
    /// The cost by currency.
    pub(crate) cost: CostSum,
}

impl UsageSum {
    fn add(&mut self, turn: &TurnOutline) {
        self.turns += 1;
        self.turns_without_cost += u64::from(turn.cost.is_empty());
        self.cost.add_all(&turn.cost);
        match turn.tokens {
            Some(tokens) => *self.tokens.get_or_insert_default() += tokens,
            None => self.turns_without_tokens += 1,
        }
    }
}

/// All sums.
#[derive(Default)]
pub(crate) struct Sums {
    /// The number of sessions with turns that count.
    pub(crate) sessions: u64,
    /// The sum of all turns.
    pub(crate) total: UsageSum,
    /// The ids of sessions that could not be read to their end.
    pub(crate) damaged: Vec<String>,
    agents: BTreeMap<String, UsageSum>,
    models: BTreeMap<String, UsageSum>,
    days: BTreeMap<String, UsageSum>,
}

impl Sums {
    /// Adds the session's own turns that count. Those that a fork has from its parent are the parent's.
    pub(crate) fn add(
        &mut self,
        row: &SessionRow,
        outline: &SessionOutline,
        counts: impl Fn(&TurnOutline) -> bool,
    ) {
        let fork = row.parent.as_ref().map(|(_, fork)| *fork);
        let own = outline.turns.iter().filter(|turn| fork.is_none_or(|fork| turn.last > fork));
        let before = self.total.turns;
        for turn in own.filter(|turn| counts(turn)) {
            let agent = turn.agent.as_deref().unwrap_or(&row.agent);
            let model = turn.model.as_deref().unwrap_or("(not reported)");
            let day = &clock::rfc3339(turn.started_at)[..10];
            self.total.add(turn);
            for (sums, key) in [(&mut self.agents, agent), (&mut self.models, model), (&mut self.days, day)] {
                sums.entry(key.to_owned()).or_default().add(turn);
            }
        }
        self.sessions += u64::from(self.total.turns > before);
        if outline.damage.is_some() {
            self.damaged.push(row.id.0.clone());
        }
    }

    /// The sums of agents, those with the most turns first.
    pub(crate) fn by_agent(&self) -> Vec<(String, UsageSum)> {
        most_first(&self.agents)
    }

    /// The sums of models, those with the most turns first.
    pub(crate) fn by_model(&self) -> Vec<(String, UsageSum)> {
        most_first(&self.models)
    }

    /// The sums of days in UTC, in order.
    pub(crate) fn by_day(&self) -> Vec<(String, UsageSum)> {
        self.days.iter().map(|(day, sum)| (day.clone(), sum.clone())).collect()
    }

    /// The document for programs.
    pub(crate) fn json(&self, since: Option<Millis>) -> Value {
        let list = |name: &str, sums: Vec<(String, UsageSum)>| -> Vec<Value> {
            let one = |(key, sum): (String, UsageSum)| {
                let mut members = json!({name: key});
                let sum = json!(sum);
                for (name, value) in sum.as_object().into_iter().flatten() {
                    members[name] = value.clone();
                }
                members
            };
            sums.into_iter().map(one).collect()
        };
        json!({
            "since": since.map(clock::rfc3339),
            "sessions": self.sessions,
            "total": self.total,
            "byAgent": list("agent", self.by_agent()),
            "byModel": list("model", self.by_model()),
            "byDay": list("day", self.by_day()),
            "damaged": self.damaged,
        })
    }
}

fn most_first(sums: &BTreeMap<String, UsageSum>) -> Vec<(String, UsageSum)> {
    let mut list: Vec<_> = sums.iter().map(|(key, sum)| (key.clone(), sum.clone())).collect();
    list.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.turns));
    list
}
