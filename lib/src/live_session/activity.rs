//! What a live session is doing, for the server that has it: reported when it changes, without keeping the session awake.

use super::LiveSession;

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

impl LiveSession {
    /// Reports what the session is doing, if that has changed.
    pub(super) fn report_activity(&self) {
        let now = match (&self.session.turn, self.session.questions.is_empty()) {
            (None, _) => Activity::Idle,
            (Some(_), true) => Activity::Running,
            (Some(_), false) if self.clients.attached.is_empty() => Activity::Unattended,
            (Some(_), false) => Activity::Waiting,
        };
        self.condition.activity.send_if_modified(|before| std::mem::replace(before, now) != now);
    }
}
