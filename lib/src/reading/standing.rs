//! How a session stands: its state, options, commands, usage, title and plan, as updates.

use rethread_core::{Entry, Json, Seq, SessionId, Update, UpdateForm, UpdateKind};
use serde::Serialize;
use serde_json::json;

use super::stretch::Stretch;
use crate::secret::{Redaction, SecretFinder, redacted_json};
use crate::store::{Store, StoreError, read_state};

/// How a session stands.
pub(crate) struct Standing {
    /// The last entry.
    pub(crate) head: Seq,
    /// What is true after it, as updates in canonical form.
    pub(crate) updates: Vec<Json>,
}

impl Standing {
    /// The answer to a client. What does not fit into `room` bytes is left out.
    pub(crate) fn encoded(&self, room: usize) -> Json {
        #[derive(Serialize)]
        struct StandingAnswer<'a> {
            head: Seq,
            standing: Vec<&'a Json>,
        }
        let mut left = room;
        let mut fits = |update: &&Json| match left.checked_sub(update.text().len() + 1) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let standing = self.updates.iter().filter(|update| fits(update)).collect();
        Json::of(&StandingAnswer { head: self.head, standing })
    }
}

/// Reads how a session stands.
pub(crate) async fn standing(
    store: &dyn Store,
    id: &SessionId,
    redaction: Redaction,
) -> Result<Standing, StoreError> {
    let (session, row) = read_state(store, id).await?;
    let idle = || json!({"sessionUpdate": "state_update", "state": "idle"}).into();
    // A turn whose process has ended does not go on.
    let state = session.state.clone().filter(|_| row.owner.is_some() || session.turn.is_none());
    let title = row.title.as_ref().or(session.title.as_ref()).map(|(title, _)| title);
    let info = title.filter(|title| !title.is_empty());
    let info = info.map(|title| json!({"sessionUpdate": "session_info_update", "title": title}).into());
    let mut updates = vec![state.unwrap_or_else(idle)];
    updates.extend([session.options, session.commands, session.usage, info].into_iter().flatten());
    updates.extend(open_plan(&Stretch::before(store, id, row.head.next()).await?));
    if redaction == Redaction::Secrets {
        let mut finder = SecretFinder::default();
        updates.iter_mut().for_each(|update| *update = redacted_json(update, &mut finder));
    }
    Ok(Standing { head: row.head, updates })
}

/// The plan of the last turn.
fn open_plan(stretch: &Stretch) -> Option<Json> {
    let mut plans: Vec<&Update> = Vec::new();
    for item in &stretch.items {
        match &item.entry {
            Entry::TurnStarted { .. } => plans.clear(),
            Entry::Updated { update, .. } if is_plan(update.kind) => {
                plans.retain(|plan| plan.id != update.id);
                if update.kind.meaning().form == UpdateForm::Complete {
                    plans.push(update);
                }
            }
            Entry::Updated { .. }
            | Entry::Opened { .. }
            | Entry::RootsSet { .. }
            | Entry::AgentBound { .. }
            | Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptInserted { .. }
            | Entry::PromptDropped { .. }
            | Entry::StateChanged { .. }
            | Entry::TurnEnded { .. }
            | Entry::QuestionAsked { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. }
            | Entry::TitleSet { .. } => {}
        }
    }
    plans.last().map(|plan| plan.body.clone())
}

fn is_plan(kind: UpdateKind) -> bool {
    kind.subject() == rethread_core::Subject::Plan
}
