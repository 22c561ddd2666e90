//! Says how a session is, for lists: its row, what it is doing, who has it open and how many clients are attached.

use rethread_core::session::SessionProgress;
use rethread_core::{Fields, Json, QuestionKind};
use serde_json::{Value, json};

use super::{LiveSessions, Registry};
use crate::clock;
use crate::live_session::{Activity, Handle, QuestionSummary, SessionStatus};
use crate::lock::locked;
use crate::store::state::read_state_within;
use crate::store::{Archived, SessionRow, Store};

/// How many entries are read to know what a session of another process is doing. With more than that since its last fold,
/// it is at work.
const READ_ENTRIES: u64 = 5000;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowForm {
    /// With `_meta.rethread`.
    Own,
    /// With `_meta.jetbrains.air` as well.
    Air,
}

impl Registry {
    /// A row of `session/list`.
    pub(crate) async fn session_info(&self, row: &SessionRow, form: RowForm) -> Fields {
        session_info(&self.live, self.store(), row, form).await
    }
}

/// A row of `session/list`.
pub(super) async fn session_info(
    live: &LiveSessions,
    store: &dyn Store,
    row: &SessionRow,
    form: RowForm,
) -> Fields {
    let handle = locked(live).get(&row.id).filter(|handle| !handle.ended()).cloned();
    let doing = match (handle, &row.owner) {
        (Some(handle), _) => SessionDoing::of_live(&handle),
        (None, Some(_)) => SessionDoing::of_stored(store, row).await,
        (None, None) => SessionDoing::default(),
    };
    let mut info: Fields =
        [("sessionId", Json::of(&row.id)), ("cwd", Json::of(&row.cwd))].into_iter().collect();
    if !row.roots.is_empty() {
        info.set("additionalDirectories", Json::of(&row.roots));
    }
    if let Some((title, _)) = row.title.as_ref().filter(|(title, _)| !title.is_empty()) {
        info.set("title", Json::of(title));
    }
    info.set("updatedAt", Json::of(&clock::rfc3339(row.updated_at)));
    info.set("archived", Json::of(&(row.archived == Archived::Yes)));
    let mut meta = json!({"rethread": own_meta(row, &doing)});
    match form {
        RowForm::Own => {}
        RowForm::Air => meta["jetbrains"] = json!({"air": air_meta(row, &doing)}),
    }
    info.set("_meta", meta.into());
    info
}

/// What a session is doing, as far as that is known.
#[derive(Default)]
struct SessionDoing {
    progress: SessionProgress,
    turns: Option<u64>,
    clients: usize,
    question: Option<QuestionSummary>,
}

impl SessionDoing {
    fn of_live(handle: &Handle) -> Self {
        let SessionStatus { activity, turns, clients, question } = handle.status();
        let progress = match activity {
            Activity::Idle => SessionProgress::Idle,
            Activity::Running => SessionProgress::Running,
            Activity::Waiting | Activity::Unattended => SessionProgress::Waiting,
        };
        Self { progress, turns: Some(turns.0), clients, question }
    }

    /// What a session that another process has open is doing. The clients of that process are not known here.
    async fn of_stored(store: &dyn Store, row: &SessionRow) -> Self {
        match read_state_within(store, &row.id, READ_ENTRIES).await {
            Ok(Some(session)) => Self {
                progress: session.progress(),
                turns: Some(session.turns.0),
                clients: 0,
                question: session.questions.first().map(QuestionSummary::of),
            },
            Ok(None) => Self { progress: SessionProgress::Running, ..Self::default() },
            Err(_) => Self::default(),
        }
    }
}

fn own_meta(row: &SessionRow, doing: &SessionDoing) -> Value {
    let mut meta = json!({
        "state": doing.progress.name(),
        "agent": row.agent,
        "archived": row.archived == Archived::Yes,
        "clients": doing.clients,
    });
    if let Some(name) = &row.agent_name {
        meta["agentName"] = json!(name);
    }
    if let Some(owner) = &row.owner {
        meta["owner"] = json!({"pid": owner.pid, "host": owner.host});
    }
    if let Some(turns) = doing.turns {
        meta["turns"] = json!(turns);
    }
    if let Some(question) = &doing.question {
        let kind = match question.kind {
            QuestionKind::Permission => "permission",
            QuestionKind::Elicitation => "elicitation",
        };
        meta["question"] = json!({"questionId": question.id, "kind": kind, "title": question.title});
    }
    meta
}

fn air_meta(row: &SessionRow, doing: &SessionDoing) -> Value {
    let archived = row.archived == Archived::Yes;
    match doing.progress {
        SessionProgress::Idle => {
            let ended = clock::rfc3339(row.updated_at);
            json!({"state": "idle", "archived": archived, "lastTurnEndedAt": ended})
        }
        SessionProgress::Running => json!({"state": "running", "archived": archived}),
        SessionProgress::Waiting => json!({"state": "requires_action", "archived": archived}),
    }
}
