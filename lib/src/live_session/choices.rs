//! Sets the options of a session (mode, model and all others) again at an agent that restores it, before the agent gets a
//! prompt. Where the agent refuses a value or no longer offers it, its own value is used.

use rethread_core::{Input, Update, UpdateKind};

use super::opening::{Opening, Progress};
use super::outcome::not_accepted;
use super::{AgentSlot, LiveSession, Message, PendingAnswer};
use crate::ids;
use crate::wire::RpcError;

/// An agent that gets the chosen options.
pub(super) struct Choosing {
    /// What it said of itself when it opened the session, without its options.
    pub(super) announced: Vec<Update>,
    /// The options it was asked for already.
    tried: Vec<String>,
    stage: Stage,
}

/// Whose choices are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Those of the journal. What the agent says of its options meanwhile is not shown.
    Kept,
    /// Those that clients made while no agent was there.
    Wanted,
}

impl Choosing {
    /// For an agent that sent these updates when it opened the session.
    pub(super) fn new(mut announced: Vec<Update>) -> Self {
        announced.retain(|update| update.kind != UpdateKind::ConfigOptionUpdate);
        Self { announced, tried: Vec::new(), stage: Stage::Kept }
    }
}

impl Opening {
    /// An option is asked for.
    pub(super) fn tries(&mut self, option: &str) {
        if let Progress::Choosing(choosing) = &mut self.progress {
            choosing.tried.push(option.to_owned());
        }
    }

    /// Says whether clients still see the options as they were left.
    pub(super) fn keeps_options(&self) -> bool {
        match &self.progress {
            Progress::Asked | Progress::Answered(_) => true,
            Progress::Choosing(choosing) => choosing.stage == Stage::Kept,
        }
    }
}

impl LiveSession {
    /// Goes on until the agent has something to answer, or has everything and is bound.
    pub(super) async fn choose_on(&mut self) {
        while self.session.asks.is_empty()
            && let Some(stage) = self.choosing().map(|choosing| choosing.stage)
        {
            match stage {
                Stage::Kept => Box::pin(self.choose_kept()).await,
                Stage::Wanted => Box::pin(self.choose_wanted()).await,
            }
        }
    }

    /// An agent that does not answer has refused: prompts are not to wait for it for ever.
    pub(super) async fn options_unanswered(&mut self) {
        let is_option =
            |_: &u64, waiting: &mut PendingAnswer| matches!(waiting, PendingAnswer::Option { .. });
        let unanswered: Vec<_> =
            self.agent.waiting.extract_if(is_option).map(|(_, waiting)| waiting).collect();
        let mut inputs = Vec::new();
        for waiting in unanswered {
            let error = RpcError::internal("the agent did not answer the change of an option in time");
            self.answered(waiting, Err(error), &mut inputs);
        }
        self.step(inputs).await;
        self.choose_on().await;
    }

    fn choosing(&mut self) -> Option<&mut Choosing> {
        let AgentSlot::Opening(opening) = &mut self.agent.slot else { return None };
        match &mut opening.progress {
            Progress::Choosing(choosing) => Some(choosing),
            Progress::Asked | Progress::Answered(_) => None,
        }
    }

    /// Asks for one choice that was kept; with none left, what the agent has is the truth.
    async fn choose_kept(&mut self) {
        let tried = self.tried();
        let before = tried.len();
        if let AgentSlot::Opening(opening) = &self.agent.slot
            && let Some(options) = opening.translator.offered_options()
        {
            self.step(vec![Input::AgentOffers { ask: ids::ask_id(), options, tried }]).await;
        }
        if self.tried().len() == before {
            self.show_offers().await;
        }
    }

    fn tried(&mut self) -> Vec<String> {
        self.choosing().map(|choosing| choosing.tried.clone()).unwrap_or_default()
    }

    async fn show_offers(&mut self) {
        let AgentSlot::Opening(opening) = &self.agent.slot else { return };
        // An agent that was given the choices says itself what becomes of them.
        let kept = self.session.options.as_ref().filter(|_| !opening.agent.profile.has("history"));
        let lacking = kept.map(|kept| opening.translator.missing_choices(kept)).unwrap_or_default();
        let update = opening.translator.offered_options_update().filter(|update| self.is_news(update));
        let updates: Vec<_> = update.into_iter().chain(not_accepted(&lacking)).collect();
        if let Some(choosing) = self.choosing() {
            choosing.stage = Stage::Wanted;
        }
        let known = |update| Input::Updated { update, known: true };
        self.step(updates.into_iter().map(known).collect()).await;
    }

    /// Asks for what clients chose while no agent was there; with nothing of that left, the agent is bound.
    async fn choose_wanted(&mut self) {
        let is_choice = |message: &Message| matches!(message, Message::SetOption { .. });
        let (wanted, others): (Vec<_>, Vec<_>) =
            self.clients.postponed.take().into_iter().partition(is_choice);
        others.into_iter().for_each(|message| self.postpone(message));
        if wanted.is_empty() {
            return self.bind().await;
        }
        for message in wanted {
            if let Message::SetOption { option, value, booleans, reply } = message {
                self.change_option(option, value, booleans, reply).await;
            }
        }
    }
}
