//! The outline of a session: which agents served it and how they got its conversation, its turns with times, models, tokens
//! and cost. Most entries are skipped without being decoded, so that many sessions can be outlined quickly.

use std::collections::HashSet;

use rethread_core::stored::{ItemSort, RawItem, Stored};
use rethread_core::{Binding, Entry, Json, Millis, Seq, SessionId, UpdateKind, prompt_title};
use serde::Serialize;

use super::event::binding_words;
use super::scan::{JournalDamage, JournalScan, ScanStep};
use super::usage::{CostMeter, CostSum, TurnTokens};
use crate::store::{Archived, Page, SessionRow, Store, StoreError};

/// What can be said of a session without its conversation.
#[derive(Clone, Debug)]
pub struct SessionOutline {
    /// The id.
    pub id: SessionId,
    /// The title.
    pub title: Option<String>,
    /// The working directory.
    pub cwd: String,
    /// The agent it was created with.
    pub agent: String,
    /// When it was created; nothing if its journal is empty.
    pub created_at: Option<Millis>,
    /// When it was changed last.
    pub updated_at: Millis,
    /// Whether it is archived.
    pub archived: Archived,
    /// The session that it was forked from.
    pub parent: Option<SessionId>,
    /// The agents that served it, in order.
    pub agents: Vec<AgentPeriod>,
    /// The turns.
    pub turns: Vec<TurnOutline>,
    /// The tokens in the agent's context and its size, as reported last.
    pub context: Option<(u64, u64)>,
    /// Where the journal is damaged; what follows is missing here.
    pub damage: Option<JournalDamage>,
}

/// An agent that served a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentPeriod {
    /// The name that the agent has for itself.
    pub agent: String,
    /// The agent's own id for the session.
    pub native_id: String,
    /// How it got the conversation so far.
    pub binding: Binding,
    /// The first turn that it can have served.
    pub from_turn: u64,
}

/// A turn without its conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnOutline {
    /// The number.
    pub number: u64,
    /// When it began.
    pub started_at: Millis,
    /// When it ended; nothing if it has not.
    pub ended_at: Option<Millis>,
    /// Why it ended; empty if it has not.
    pub stop_reason: String,
    /// The beginning of its prompt; empty if there is none.
    pub prompt: String,
    /// The agent that served it.
    pub agent: Option<String>,
    /// The model that was chosen at its end, if the agent offers a choice.
    pub model: Option<String>,
    /// The tokens, if the agent reported them.
    pub tokens: Option<TurnTokens>,
    /// The cost; empty if the agent reported none.
    pub cost: CostSum,
    /// The id of the message that is its prompt.
    pub message: Option<String>,
    /// How many tool calls it has.
    pub tools: usize,
    /// Its first entry.
    pub first: Seq,
    /// Its last entry: a fork has the turns up to a certain entry from its parent.
    pub last: Seq,
}

impl SessionOutline {
    /// Reads the outline of the session that a row is of.
    pub async fn read(store: &dyn Store, row: &SessionRow) -> Result<Self, StoreError> {
        let mut scan = JournalScan::new(store, &row.id);
        let mut reading = OutlineReader::default();
        loop {
            match scan.step().await? {
                ScanStep::Page(page) => read_page(&mut scan, &page, &mut reading)?,
                ScanStep::Restarted => reading.restart_turn(),
                ScanStep::End => break,
            }
        }
        Ok(reading.finish(row, scan.damage().cloned()))
    }

    /// The tokens of all turns; nothing if no turn has any.
    #[must_use]
    pub fn tokens(&self) -> Option<TurnTokens> {
        self.turns.iter().filter_map(|turn| turn.tokens).reduce(|mut sum, tokens| {
            sum += tokens;
            sum
        })
    }

    /// The cost of all turns.
    #[must_use]
    pub fn cost(&self) -> CostSum {
        let mut sum = CostSum::default();
        self.turns.iter().for_each(|turn| sum.add_all(&turn.cost));
        sum
    }
}

fn read_page(scan: &mut JournalScan<'_>, page: &Page, reading: &mut OutlineReader) -> Result<(), StoreError> {
    for item in page.items() {
        let Some(item) = scan.readable(item)? else { break };
        if let Some(RawItem::Update { kind: UpdateKind::ToolCallUpdate, id, .. }) = item.raw_item() {
            reading.tool_called(id);
        }
        if is_irrelevant(&item) {
            continue;
        }
        let (first, last) = (item.first, item.last);
        let entry = item.entry().map_err(|cause| page.damaged(first, cause));
        let Some(entry) = scan.readable(entry)? else { break };
        scan.passed(&entry, last);
        reading.entry(&entry, first, last);
    }
    Ok(())
}

/// Says of most entries without decoding them that an outline does not need them.
fn is_irrelevant(item: &Stored<'_>) -> bool {
    match (item.sort(), item.raw_item()) {
        (ItemSort::Any, Some(RawItem::Update { kind, .. })) => {
            !matches!(kind, UpdateKind::UsageUpdate | UpdateKind::ConfigOptionUpdate)
        }
        (ItemSort::Any | ItemSort::Bookkeeping | ItemSort::TurnEnded, _) => false,
    }
}

/// Folds entries into an outline.
#[derive(Default)]
struct OutlineReader {
    created_at: Option<Millis>,
    agents: Vec<AgentPeriod>,
    turns: Vec<TurnOutline>,
    turn: Option<TurnOutline>,
    /// The tool calls of the turn.
    calls: HashSet<String>,
    model: Option<String>,
    context: Option<(u64, u64)>,
    last: Seq,
    cost: CostMeter,
    cost_at_turn_end: CostMeter,
}

impl OutlineReader {
    fn entry(&mut self, entry: &Entry, first: Seq, last: Seq) {
        self.last = last;
        match entry {
            Entry::Opened { at, .. } => self.created_at = self.created_at.or(Some(*at)),
            Entry::AgentBound { agent, native, binding, .. } => self.bound(agent, native, *binding),
            Entry::TurnStarted { turn, at, .. } => drop(self.begun(turn.0, *at, first)),
            Entry::PromptInserted { message, turn, content, at } => {
                let turn = self.begun(turn.0, *at, first);
                turn.message.get_or_insert_with(|| message.0.clone());
                if turn.prompt.is_empty() {
                    turn.prompt = prompt_title(content).unwrap_or_default();
                }
            }
            Entry::TurnEnded { turn, stop, at, state } => {
                self.begun(turn.0, *at, first);
                self.ended(&stop.reason, *at, state);
            }
            Entry::Updated { update, .. } => {
                if update.kind == UpdateKind::ToolCallUpdate {
                    self.tool_called(&update.id);
                }
                self.updated(update.kind, &update.body);
            }
            Entry::RootsSet { .. }
            | Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptDropped { .. }
            | Entry::StateChanged { .. }
            | Entry::QuestionAsked { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. }
            | Entry::TitleSet { .. } => {}
        }
    }

    fn bound(&mut self, agent: &str, native: &str, binding: Binding) {
        let from_turn = self.turn.as_ref().map_or_else(
            || self.turns.last().map_or(1, |turn| turn.number.saturating_add(1)),
            |turn| turn.number,
        );
        let (agent, native_id) = (agent.to_owned(), native.to_owned());
        self.cost.bound(binding);
        // The options of one agent say nothing of another.
        if self.agents.last().is_some_and(|last| last.agent != agent) {
            self.model = None;
        }
        self.agents.push(AgentPeriod { agent, native_id, binding, from_turn });
    }

    /// The turn that runs, begun if it was not.
    fn begun(&mut self, number: u64, started_at: Millis, first: Seq) -> &mut TurnOutline {
        self.turn.get_or_insert_with(|| TurnOutline { number, started_at, first, ..TurnOutline::default() })
    }

    fn tool_called(&mut self, id: &str) {
        if !self.calls.contains(id) {
            self.calls.insert(id.to_owned());
        }
    }

    fn ended(&mut self, reason: &str, at: Millis, state: &Json) {
        let tools = std::mem::take(&mut self.calls).len();
        let (agent, cost) = (self.agents.last().map(|period| period.agent.clone()), self.cost.take());
        self.turns.extend(self.turn.take().map(|turn| TurnOutline {
            ended_at: Some(at),
            stop_reason: reason.to_owned(),
            agent,
            model: self.model.clone(),
            tokens: TurnTokens::read(state),
            cost,
            tools,
            last: self.last,
            ..turn
        }));
        self.cost_at_turn_end = self.cost.clone();
    }

    fn updated(&mut self, kind: UpdateKind, body: &Json) {
        if kind == UpdateKind::UsageUpdate {
            self.cost.reported(body);
            let fields = body.fields();
            let count = |name: &str| fields.get(name).and_then(|count| count.read::<u64>().ok());
            self.context = count("used").zip(count("size")).or(self.context);
        } else if kind == UpdateKind::ConfigOptionUpdate {
            self.model = chosen_model(body);
        }
    }

    /// Drops the turn that has not ended: it comes again.
    fn restart_turn(&mut self) {
        self.turn = None;
        self.calls.clear();
        self.cost = self.cost_at_turn_end.clone();
        let ended = self.turns.last().map_or(0, |turn| turn.number);
        self.agents.retain(|period| period.from_turn <= ended);
    }

    fn finish(mut self, row: &SessionRow, damage: Option<JournalDamage>) -> SessionOutline {
        if let Some(turn) = self.turn.take() {
            let (agent, cost) = (self.agents.last().map(|period| period.agent.clone()), self.cost.take());
            let (model, tools, last) = (self.model.clone(), self.calls.len(), self.last);
            self.turns.push(TurnOutline { agent, model, cost, tools, last, ..turn });
        }
        SessionOutline {
            id: row.id.clone(),
            title: row.title.as_ref().map(|(title, _)| title.clone()).filter(|title| !title.is_empty()),
            cwd: row.cwd.clone(),
            agent: row.agent.clone(),
            created_at: self.created_at,
            updated_at: row.updated_at,
            archived: row.archived,
            parent: row.parent.as_ref().map(|(parent, _)| parent.clone()),
            agents: self.agents,
            turns: self.turns,
            context: self.context,
            damage,
        }
    }
}

/// The current value of the option for the model.
fn chosen_model(options: &Json) -> Option<String> {
    let list = options.fields().take("configOptions")?.items()?;
    let model =
        list.iter().map(Json::fields).find(|option| option.text("category").as_deref() == Some("model"))?;
    model.text("currentValue")
}

/// The periods of an agent with one session of its own, for people.
pub(super) struct AgentSummary<'a> {
    /// The first of them.
    pub(super) first: &'a AgentPeriod,
    /// How it got the conversation.
    pub(super) words: String,
}

/// The agents of a session, without repeating those that had it several times in a row.
pub(super) fn agent_summaries(periods: &[AgentPeriod]) -> Vec<AgentSummary<'_>> {
    let same = |one: &AgentPeriod, next: &AgentPeriod| {
        (&one.agent, &one.native_id) == (&next.agent, &next.native_id)
    };
    periods.chunk_by(same).filter_map(agent_summary).collect()
}

fn agent_summary(run: &[AgentPeriod]) -> Option<AgentSummary<'_>> {
    let (first, later) = run.split_first()?;
    let words = binding_words(first.binding);
    let words = match later.len() {
        0 => words.to_owned(),
        1 => format!("{words}, restored once"),
        times => format!("{words}, restored {times} times"),
    };
    Some(AgentSummary { first, words })
}
