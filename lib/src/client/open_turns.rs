//! The prompts of a client whose turns have not ended. An agent that acknowledges prompts reports the end of a turn as a
//! state: it belongs to the prompts that the agent has repeated or started to work on by then.

use rethread_core::{Activity, Stop, Subject};

use super::SessionEvent;

/// The open prompts of one session, each with what is to be told of its end.
#[derive(Debug)]
pub(super) struct OpenTurns<T> {
    prompts: Vec<OpenTurn<T>>,
    /// The ids of user messages since the oldest open prompt was sent.
    echoed: Vec<String>,
}

#[derive(Debug)]
struct OpenTurn<T> {
    request: u64,
    waiting: T,
    /// The message id from the acknowledgement.
    message: Option<String>,
    /// Whether the agent reported that it works after the acknowledgement.
    progress: TurnProgress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnProgress {
    None,
    Running,
}

impl<T> Default for OpenTurns<T> {
    fn default() -> Self {
        Self { prompts: Vec::new(), echoed: Vec::new() }
    }
}

impl<T> OpenTurns<T> {
    /// Records a prompt that was sent.
    pub(super) fn sent(&mut self, request: u64, waiting: T) {
        self.prompts.push(OpenTurn { request, waiting, message: None, progress: TurnProgress::None });
    }

    /// Records the acknowledgement of a prompt.
    pub(super) fn acknowledged(&mut self, request: u64, message: Option<String>) {
        if let Some(turn) = self.prompts.iter_mut().find(|turn| turn.request == request) {
            turn.message = Some(message.unwrap_or_default());
        }
    }

    /// Takes out a prompt that was answered or refused.
    pub(super) fn take(&mut self, request: u64) -> Option<T> {
        let at = self.prompts.iter().position(|turn| turn.request == request)?;
        Some(self.prompts.remove(at).waiting)
    }

    /// Takes out all prompts.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.prompts.drain(..).map(|turn| turn.waiting).collect()
    }

    /// Looks at an event; returns the prompts whose turn it ends, and how.
    pub(super) fn see(&mut self, event: &SessionEvent) -> Vec<(T, Stop)> {
        if self.prompts.is_empty() {
            self.echoed.clear();
            return Vec::new();
        }
        match event {
            SessionEvent::Updated(update) if update.kind.subject() == Subject::UserMessage => {
                self.echoed.push(update.id.clone());
                Vec::new()
            }
            SessionEvent::StateChanged { activity: Activity::Running, .. } => {
                let acknowledged = self.prompts.iter_mut().filter(|turn| turn.message.is_some());
                acknowledged.for_each(|turn| turn.progress = TurnProgress::Running);
                Vec::new()
            }
            SessionEvent::StateChanged { activity: Activity::Idle, stop, .. } => {
                self.end(&stop.clone().unwrap_or_else(|| Stop::plain("end_turn")))
            }
            SessionEvent::StateChanged { .. }
            | SessionEvent::Updated(_)
            | SessionEvent::Prompted { .. }
            | SessionEvent::Asked { .. }
            | SessionEvent::Settled { .. } => Vec::new(),
        }
    }

    fn end(&mut self, stop: &Stop) -> Vec<(T, Stop)> {
        let echoed = std::mem::take(&mut self.echoed);
        let is_over = |turn: &OpenTurn<T>| {
            let message = turn.message.as_ref();
            message.is_some_and(|id| turn.progress == TurnProgress::Running || echoed.contains(id))
        };
        let (over, open) = std::mem::take(&mut self.prompts).into_iter().partition(is_over);
        self.prompts = open;
        let over: Vec<OpenTurn<T>> = over;
        over.into_iter().map(|turn| (turn.waiting, stop.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::{Json, Update};
    use serde_json::json;

    use super::*;

    fn echo(id: &str) -> SessionEvent {
        let body = json!({"sessionUpdate": "user_message", "messageId": id, "content": []});
        SessionEvent::Updated(Update::read(Json::from(body)))
    }

    fn state(activity: Activity, stop: Option<&str>) -> SessionEvent {
        SessionEvent::StateChanged { activity, stop: stop.map(Stop::plain), body: json!({}).into() }
    }

    fn idle() -> SessionEvent {
        state(Activity::Idle, Some("end_turn"))
    }

    #[test]
    fn a_turn_ends_with_the_first_idle_state_after_its_echo() {
        let mut turns = OpenTurns::default();
        turns.sent(1, "first");
        assert!(turns.see(&idle()).is_empty(), "it is not acknowledged");
        turns.see(&echo("m1"));
        turns.acknowledged(1, Some("m1".to_owned()));
        turns.sent(2, "second");
        turns.acknowledged(2, Some("m2".to_owned()));
        assert_eq!(turns.see(&idle()), [("first", Stop::plain("end_turn"))], "the second is queued");
        turns.see(&echo("m2"));
        assert_eq!(
            turns.see(&state(Activity::Idle, Some("cancelled"))),
            [("second", Stop::plain("cancelled"))]
        );
    }

    #[test]
    fn an_agent_that_repeats_nothing_ends_the_turn_by_its_states() {
        let mut turns = OpenTurns::default();
        turns.sent(1, "only");
        turns.acknowledged(1, None);
        assert!(turns.see(&idle()).is_empty());
        turns.see(&state(Activity::Running, None));
        assert_eq!(turns.see(&idle()).len(), 1);
        assert_eq!(turns.take(1), None);
    }
}
