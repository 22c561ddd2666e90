//! Sums of turns, tokens and cost over many sessions, by day, agent and model.
//!
//! All journals are read. What is needed is in them since the first version, agents report it in different ways, and of
//! most entries only the kind is looked at, so that thousands of sessions take seconds; keeping sums in the rows of
//! sessions would be a second truth that forks and imports have to keep right.

use std::collections::BTreeMap;

use rethread_core::Millis;
use serde::Serialize;
use serde_json::{Value, json};

use super::outline::{SessionOutline, TurnOutline};
use super::usage::{CostSum, TurnTokens};
use crate::clock;
use crate::store::{ArchivedFilter, IndexProgress, ListQuery, SessionRow, Store, StoreError};

/// The number of rows that are read at once.
const PAGE: usize = 500;

/// What is said of a model that is not known.
const NO_MODEL: &str = "(not reported)";

/// The usage of some turns.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageSum {
    /// The number of turns.
    pub turns: u64,
    /// How many of them have no token counts.
    pub turns_without_tokens: u64,
    /// How many of them have no cost.
    pub turns_without_cost: u64,
    /// The tokens; nothing if none were reported.
    pub tokens: Option<TurnTokens>,
    /// The cost by currency.
    pub cost: CostSum,
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

    fn add_all(&mut self, more: &Self) {
        self.turns += more.turns;
        self.turns_without_cost += more.turns_without_cost;
        self.turns_without_tokens += more.turns_without_tokens;
        self.cost.add_all(&more.cost);
        if let Some(tokens) = more.tokens {
            *self.tokens.get_or_insert_default() += tokens;
        }
    }
}

/// Which turns count.
#[derive(Clone, Debug, Default)]
pub struct UsageFilter {
    /// Only turns of sessions with one of these working directories; of all if there is none.
    pub directories: Vec<String>,
    /// Only turns of agents whose name contains this text.
    pub agent: Option<String>,
    /// Only turns since then.
    pub since: Option<Millis>,
}

/// What turns have in common that are summed up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageKey {
    /// The day in UTC.
    pub day: String,
    /// The agent.
    pub agent: String,
    /// The model, if it was reported.
    pub model: Option<String>,
}

/// All sums.
#[derive(Default)]
pub struct UsageSums {
    /// The number of sessions with turns that count.
    pub sessions: u64,
    /// The sum of all turns.
    pub total: UsageSum,
    /// The ids of sessions that could not be read to their end.
    pub damaged: Vec<String>,
    sums: BTreeMap<UsageKey, UsageSum>,
}

impl UsageSums {
    /// Sums up the turns of all sessions that count.
    pub async fn read(
        store: &dyn Store,
        filter: &UsageFilter,
        mut progress: impl FnMut(IndexProgress),
    ) -> Result<Self, StoreError> {
        let rows = rows(store, filter).await?;
        let (mut sums, total) = (Self::default(), rows.len());
        let wanted = filter.agent.as_ref().map(|agent| agent.to_lowercase());
        for (done, row) in rows.iter().enumerate() {
            progress(IndexProgress { done, total });
            let outline = match SessionOutline::read(store, row).await {
                Ok(outline) => outline,
                // It was deleted meanwhile.
                Err(StoreError::Unknown(_)) => continue,
                Err(other) => return Err(other),
            };
            sums.add(row, &outline, |turn| {
                let agent = turn.agent.as_deref().unwrap_or(&row.agent).to_lowercase();
                turn.started_at >= filter.since.unwrap_or(0)
                    && wanted.as_ref().is_none_or(|wanted| agent.contains(wanted))
            });
        }
        Ok(sums)
    }

    /// Adds the session's own turns that count. Those that a fork has from its parent are the parent's.
    fn add(&mut self, row: &SessionRow, outline: &SessionOutline, counts: impl Fn(&TurnOutline) -> bool) {
        let fork = row.parent.as_ref().map(|(_, fork)| *fork);
        let own = outline.turns.iter().filter(|turn| fork.is_none_or(|fork| turn.last > fork));
        let before = self.total.turns;
        for turn in own.filter(|turn| counts(turn)) {
            let key = UsageKey {
                day: clock::rfc3339(turn.started_at)[..10].to_owned(),
                agent: turn.agent.as_ref().unwrap_or(&row.agent).clone(),
                model: turn.model.clone(),
            };
            self.total.add(turn);
            self.sums.entry(key).or_default().add(turn);
        }
        self.sessions += u64::from(self.total.turns > before);
        if outline.damage.is_some() {
            self.damaged.push(row.id.0.clone());
        }
    }

    /// The sums of each day, agent and model, in this order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&UsageKey, &UsageSum)> {
        self.sums.iter()
    }

    /// The sums of agents, those with the most turns first.
    #[must_use]
    pub fn by_agent(&self) -> Vec<(String, UsageSum)> {
        most_first(self.by(|key| &key.agent))
    }

    /// The sums of models, those with the most turns first.
    #[must_use]
    pub fn by_model(&self) -> Vec<(String, UsageSum)> {
        most_first(self.by(|key| key.model.as_deref().unwrap_or(NO_MODEL)))
    }

    /// The sums of days in UTC, in order.
    #[must_use]
    pub fn by_day(&self) -> Vec<(String, UsageSum)> {
        self.by(|key| &key.day).into_iter().collect()
    }

    fn by<'a>(&'a self, name: impl Fn(&'a UsageKey) -> &'a str) -> BTreeMap<String, UsageSum> {
        let mut sums: BTreeMap<String, UsageSum> = BTreeMap::new();
        for (key, sum) in &self.sums {
            sums.entry(name(key).to_owned()).or_default().add_all(sum);
        }
        sums
    }

    /// The document for programs.
    #[must_use]
    pub fn json(&self, since: Option<Millis>) -> Value {
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

/// The sessions that have changed since the first turn that counts.
async fn rows(store: &dyn Store, filter: &UsageFilter) -> Result<Vec<SessionRow>, StoreError> {
    let directories = match filter.directories.as_slice() {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    };
    let since = filter.since.unwrap_or(0);
    let mut found = Vec::new();
    for cwd in directories {
        let archived = ArchivedFilter::Include;
        let mut query = ListQuery { cwd, agent: filter.agent.clone(), archived, after: None, limit: PAGE };
        loop {
            let page = store.list(&query).await?;
            let older = page.rows.iter().position(|row| row.updated_at < since);
            let wanted = older.unwrap_or(page.rows.len());
            found.extend(page.rows.into_iter().take(wanted));
            query.after = page.next;
            if older.is_some() || query.after.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

fn most_first(sums: BTreeMap<String, UsageSum>) -> Vec<(String, UsageSum)> {
    let mut list: Vec<_> = sums.into_iter().collect();
    list.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.turns));
    list
}
