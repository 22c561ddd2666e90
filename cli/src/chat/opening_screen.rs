//! The terminal while the session of a chat is opened: the end of its history, and what is waited for. Ctrl-C leaves.

use std::cell::RefCell;
use std::pin::pin;
use std::time::Duration;

use rethread::client::AskedQuestion;
use rethread::client::view::SessionView;
use rethread::edge::client_request::ReplayFrom;
use rethread_core::SessionId;
use tokio::signal::unix::{SignalKind, signal};

use super::connection::{ChatEvent, ChatServer, Connected, Conversation};
use super::login::LoginPolicy;
use super::opening::{ChatSession, Opened};
use super::permission::PermissionPolicy;
use super::screen::{LiveLines, Screen};
use super::transcript::{Moment, Transcript};
use super::turn::{ChatScreen, asked_to_end};
use crate::agents::AgentChoice;
use crate::failure::Failure;
use crate::markdown::style::TextStyle;
use crate::output::escape::visible;
use crate::output::ids::short_ids;

/// How long an agent may take to start before that is said.
const PATIENCE: Duration = Duration::from_millis(400);

/// Shows the end of a session's history while it is opened.
pub(crate) struct OpeningScreen {
    /// The terminal.
    pub(super) shown: ChatScreen,
    /// The questions that are open.
    pub(super) questions: Vec<AskedQuestion>,
}

impl OpeningScreen {
    /// Looks at the terminal. Permissions may be answered without asking.
    pub(crate) fn new(unasked: Option<PermissionPolicy>) -> Self {
        let screen = Screen::new();
        let transcript = Transcript::new(screen.columns(), screen.color(), Moment::Replay);
        Self { shown: ChatScreen { screen, transcript, unasked }, questions: Vec::new() }
    }

    /// Opens the session and shows what is replayed.
    pub(crate) async fn open(
        self,
        server: &ChatServer,
        agent: &AgentChoice,
        choice: &ChatSession,
        from: &ReplayFrom,
    ) -> Result<(Conversation, Self), Failure> {
        let screen = RefCell::new(self);
        if let (ChatSession::Existing(row), ReplayFrom::Message(_)) = (choice, from) {
            screen.borrow_mut().earlier_turns(&row.id)?;
        }
        let mut connection = None;
        loop {
            let opening = async {
                let connected = match connection.take() {
                    Some(connected) => connected,
                    None => Connected::to(server, LoginPolicy::Ask).await?,
                };
                let each = |view: &mut SessionView, event| screen.borrow_mut().event(view, event);
                Conversation::open(connected, choice, from, each).await
            };
            let opened = unless_interrupted(opening, || {
                let line = LiveLines::status("starting the agent · Ctrl-C leaves");
                Ok(screen.borrow_mut().shown.screen.set_live(line)?)
            })
            .await;
            screen.borrow_mut().shown.screen.set_live(LiveLines::default())?;
            match opened? {
                Opened::Chat(chat) => return Ok((*chat, screen.into_inner())),
                Opened::LoginRequired(connected, error) => {
                    connection = connected.log_in(error, agent).await?
                }
            }
        }
    }

    /// Says how to see the turns that are not shown.
    fn earlier_turns(&mut self, session: &SessionId) -> Result<(), Failure> {
        let short = short_ids(&[session.as_str()])[0];
        let line = format!("… earlier turns: rethread show {}", visible(short));
        let line = TextStyle::DIM.paint(self.shown.screen.color(), &line);
        Ok(self.shown.screen.commit(&format!("{line}\n\n"))?)
    }

    fn event(&mut self, view: &mut SessionView, event: ChatEvent) {
        match event {
            ChatEvent::Happened(_, event) => {
                if let Some(change) = view.apply(&event) {
                    let text = self.shown.transcript.change(view, &change);
                    // A terminal that is gone ends the chat with the next prompt.
                    let _ = self.shown.screen.commit(&text);
                }
            }
            ChatEvent::Asked(question) => self.questions.push(question),
            ChatEvent::Ended(_) => {}
        }
    }
}

/// Waits for a call, unless Ctrl-C or a signal ends the wait. Calls `late` once if it takes long.
async fn unless_interrupted<T>(
    call: impl Future<Output = Result<T, Failure>>,
    late: impl FnOnce() -> Result<(), Failure>,
) -> Result<T, Failure> {
    let mut call = pin!(call);
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut ends = pin!(asked_to_end());
    let mut patience = pin!(tokio::time::sleep(PATIENCE));
    let mut late = Some(late);
    loop {
        tokio::select! {
            biased;
            outcome = &mut call => return outcome,
            Some(()) = interrupts.recv() => return Err(Failure::interrupted()),
            () = &mut ends => return Err(Failure::interrupted()),
            () = &mut patience, if late.is_some() => late.take().map_or(Ok(()), |late| late())?,
        }
    }
}
