//! How a live session is, for the server that has it and for lists: reported when it changes, without keeping the session
//! awake.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rethread_core::session::OpenQuestion;
use rethread_core::{Fields, Json, QuestionId, QuestionKind, SessionId, TurnNo};
use tokio::sync::Notify;

use super::LiveSession;
use crate::lock::locked;

/// How many characters of a question are in lists.
const TITLE: usize = 200;

/// What a session is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// No turn runs.
    #[default]
    Idle,
    /// A turn runs.
    Running,
    /// A turn waits for an answer of a client that is attached.
    Waiting,
    /// A turn waits for an answer, and no client is attached.
    Unattended,
}

/// How a session is, in short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionStatus {
    /// What it is doing.
    pub(crate) activity: Activity,
    /// How many turns there were.
    pub(crate) turns: TurnNo,
    /// How many clients are attached. Observers do not count.
    pub(crate) clients: usize,
    /// The oldest open question.
    pub(crate) question: Option<QuestionSummary>,
}

/// An open question in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuestionSummary {
    /// The id of the question.
    pub(crate) id: QuestionId,
    /// What is asked for.
    pub(crate) kind: QuestionKind,
    /// The title of the tool call, or the message of the form.
    pub(crate) title: String,
}

impl QuestionSummary {
    /// The summary of an open question.
    pub(crate) fn of(open: &OpenQuestion) -> Self {
        let fields = open.body.fields();
        let title = match open.kind {
            QuestionKind::Permission => permission_title(&fields),
            QuestionKind::Elicitation => fields.text("message"),
        };
        let title = title.unwrap_or_default().chars().take(TITLE).collect();
        Self { id: open.question.clone(), kind: open.kind, title }
    }
}

/// The title of a permission request, else that of the tool call that it is about.
fn permission_title(body: &Fields) -> Option<String> {
    let of = |fields: &Fields| fields.text("title").filter(|title| !title.is_empty());
    let call = || {
        let subject = body.get("subject").map(Json::fields).unwrap_or_default();
        let call = body.get("toolCall").or_else(|| subject.get("toolCall")).map(Json::fields);
        call.and_then(|call| of(&call))
    };
    of(body).or_else(call)
}

/// The live sessions whose status has changed since the last look, while somebody wants to know.
#[derive(Default)]
pub(crate) struct ChangedSessions {
    ids: Mutex<HashSet<SessionId>>,
    wanted: AtomicBool,
    notify: Notify,
}

impl ChangedSessions {
    /// Notes a session, if somebody wants to know.
    pub(crate) fn note(&self, session: &SessionId) {
        if self.wanted.load(Ordering::SeqCst) && locked(&self.ids).insert(session.clone()) {
            self.notify.notify_one();
        }
    }

    /// Begins to note sessions.
    pub(crate) fn begin(&self) {
        self.wanted.store(true, Ordering::SeqCst);
    }

    /// Nobody wants to know any more.
    pub(crate) fn stop(&self) {
        self.wanted.store(false, Ordering::SeqCst);
        locked(&self.ids).clear();
    }

    /// Has whoever waits look.
    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    /// Takes what was noted.
    pub(crate) fn take(&self) -> HashSet<SessionId> {
        std::mem::take(&mut *locked(&self.ids))
    }

    /// Waits until something was noted since the last wait.
    pub(crate) async fn noted(&self) {
        self.notify.notified().await;
    }
}

impl LiveSession {
    /// Returns whether there is work that can make progress: a turn, or a prompt that waits for its turn.
    pub(super) fn works(&self) -> bool {
        match self.activity() {
            Activity::Idle => !self.session.prompts.is_empty(),
            Activity::Running | Activity::Waiting => true,
            Activity::Unattended => false,
        }
    }

    fn activity(&self) -> Activity {
        match (&self.session.turn, self.session.questions.is_empty()) {
            (None, _) => Activity::Idle,
            (Some(_), true) => Activity::Running,
            (Some(_), false) if self.clients.attached.is_empty() => Activity::Unattended,
            (Some(_), false) => Activity::Waiting,
        }
    }

    /// Reports how the session is, if that has changed. Called after every message, so it compares before it copies.
    pub(super) fn report_status(&self) {
        let activity = self.activity();
        let (turns, clients) = (self.session.turns, self.clients.attached.len());
        let asked = self.session.questions.first();
        let changed = self.condition.status.send_if_modified(|status| {
            let same = status.activity == activity
                && status.turns == turns
                && status.clients == clients
                && status.question.as_ref().map(|known| &known.id) == asked.map(|open| &open.question);
            if !same {
                *status =
                    SessionStatus { activity, turns, clients, question: asked.map(QuestionSummary::of) };
            }
            !same
        });
        if changed {
            self.deps.changed.note(&self.id);
        }
    }
}
