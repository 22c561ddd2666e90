//! A chat on a terminal: prompts and turns, one after the other, until the user leaves.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rethread::client::AskedQuestion;
use rethread::store::Store;
use rethread_core::{Json, SessionId};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::agent::AgentArg;
use super::attachments::{Embedding, content};
use super::background::{background_text, happened, print_above};
use super::completion::Completions;
use super::connection::Conversation;
use super::input::{Entered, InputLine};
use super::login::{LoggedIn, log_in};
use super::notes::stop_lines;
use super::opening_screen::OpeningScreen;
use super::screen::Screen;
use super::slash::{COMMANDS, ChatCommand, Typed, typed};
use super::turn::{AfterTurn, ChatScreen, TurnOnScreen, asked_to_end};
use crate::agents::AgentChoice;
use crate::failure::Failure;
use crate::markdown::load_grammars;
use crate::markdown::style::TextStyle;
use crate::output::escape::visible;
use crate::output::ids::short_ids;
use crate::output::target::Color;
use crate::output::width::cut_end;

/// How long the input line may take to go when the process has to end.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// How long an agent that writes outside of a turn says nothing before what it wrote is shown as it is.
const QUIET: Duration = Duration::from_millis(300);
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

const HELP: &str = "/help shows the commands, Ctrl-D leaves";

/// A chat on a terminal.
pub(crate) struct TerminalChat {
    pub(super) chat: Conversation,
    pub(super) store: Arc<dyn Store>,
    pub(super) shown: ChatScreen,
    pub(super) input: InputLine,
    pub(super) cwd: PathBuf,
    agent: AgentArg,
    program: AgentChoice,
    /// Questions that came outside of a turn.
    pub(super) questions: Vec<AskedQuestion>,
    /// Text that is to be printed above the input line.
    background: String,
    said: SaidAnything,
    /// Ctrl-C outside of the input line.
    interrupts: Signal,
}

/// Whether there is something to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaidAnything {
    /// Something was said, now or before.
    Yes,
    /// Nothing was said.
    No,
}

/// Why a chat ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChatEnd {
    /// The user has left.
    Left,
    /// The agent has to be started again for this session.
    StartAgain(SessionId),
}

/// What a chat is started with.
pub(crate) struct TalkSetup {
    /// The open session.
    pub(crate) chat: Conversation,
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// What was shown while it was opened.
    pub(crate) opening: OpeningScreen,
    /// The file with the history of prompts.
    pub(crate) history: PathBuf,
    /// The agent as the command line names it.
    pub(crate) agent: AgentArg,
    /// The agent itself.
    pub(crate) program: AgentChoice,
    /// Whether the session has turns.
    pub(crate) said: SaidAnything,
    /// The working directory of the session.
    pub(crate) cwd: PathBuf,
}

impl TerminalChat {
    /// Prepares the chat; the history has been shown.
    pub(crate) fn new(setup: TalkSetup) -> Result<Self, Failure> {
        let TalkSetup { chat, store, opening, history, agent, program, said, cwd } = setup;
        let OpeningScreen { mut shown, questions } = opening;
        let has_history = shown.transcript.has_lines();
        let rest = shown.transcript.end_turn(&chat.view);
        shown.screen.commit(&rest)?;
        if let Some(stop) = chat.view.stop().filter(|_| has_history) {
            let lines = stop_lines(stop, shown.screen.color());
            shown.screen.commit(&if lines.is_empty() { lines } else { format!("\n{lines}") })?;
        }
        shown.transcript.begin_live();
        let header = header(&chat, &shown.screen);
        shown.screen.commit(&if said == SaidAnything::Yes {
            format!("\n{header}\n")
        } else {
            format!("{header}\n")
        })?;
        let input = InputLine::new(&history, shown.screen.color())?;
        let background = String::new();
        let interrupts = signal(SignalKind::interrupt())?;
        let mut talk =
            Self { chat, store, shown, input, cwd, agent, program, questions, background, said, interrupts };
        talk.chat.view.forget_items();
        Ok(talk)
    }

    /// Talks until the user leaves; the first prompt may be given.
    pub(crate) async fn run(mut self, first: Option<String>) -> Result<ChatEnd, Failure> {
        if self.shown.screen.color() == Color::On {
            // Meanwhile the user types. Nobody waits for it.
            drop(tokio::task::spawn_blocking(load_grammars));
        }
        let outcome = self.talk(first).await;
        let (said, color) = (self.said, self.shown.screen.color());
        let id = self.chat.session.id().clone();
        let words = self.agent.words();
        self.chat.close().await;
        if outcome? == AfterTurn::StartAgain {
            return Ok(ChatEnd::StartAgain(id));
        }
        if said == SaidAnything::Yes {
            let short = short_ids(&[id.as_str()])[0];
            let line =
                format!("Come back with: rethread chat --resume {}{}", visible(short), visible(&words));
            self.shown.screen.commit(&format!("{}\n", TextStyle::DIM.paint(color, &line)))?;
        }
        Ok(ChatEnd::Left)
    }

    /// Talks until there is something else to do than to go on.
    async fn talk(&mut self, first: Option<String>) -> Result<AfterTurn, Failure> {
        if let Some(first) = first {
            let lines = super::notes::prompt_lines(&first, self.shown.screen.color());
            self.shown.screen.commit(&lines)?;
            let after = self.entered(first).await?;
            if after != AfterTurn::GoOn {
                return Ok(after);
            }
        }
        let mut interrupts = 0;
        loop {
            if !self.questions.is_empty() {
                let questions = std::mem::take(&mut self.questions);
                let turn =
                    TurnOnScreen::new(&mut self.chat, &mut self.shown, questions, &mut self.interrupts);
                let after = turn.answer_questions().await?;
                if after != AfterTurn::GoOn {
                    return Ok(after);
                }
            }
            match self.read().await? {
                Some(Entered::Text(text)) => {
                    interrupts = 0;
                    let after = self.entered(text).await?;
                    if after != AfterTurn::GoOn {
                        return Ok(after);
                    }
                }
                Some(Entered::Interrupted) => {
                    interrupts += 1;
                    if interrupts > 1 {
                        return Ok(AfterTurn::Leave);
                    }
                    self.note("Ctrl-C again leaves, and so does Ctrl-D")?;
                }
                Some(Entered::Broken) => {}
                Some(Entered::EndOfInput) | None => return Ok(AfterTurn::Leave),
            }
        }
    }

    /// Lets the user type. What happens meanwhile is printed above the line; a question takes the line away. Nothing if
    /// the process has to end.
    async fn read(&mut self) -> Result<Option<Entered>, Failure> {
        let handle = self.input.handle();
        handle.completer.set(self.completions());
        self.shown.screen.resized()?;
        self.shown.transcript.resize(self.shown.screen.columns());
        let Self { chat, shown, input, questions, background, interrupts, .. } = self;
        let mut reading = pin!(input.read());
        let mut ends = pin!(asked_to_end());
        let mut quiet = pin!(tokio::time::sleep(QUIET));
        loop {
            tokio::select! {
                biased;
                entered = &mut reading => return Ok(Some(entered?)),
                // Pressed before the line was there.
                Some(()) = interrupts.recv() => {
                    handle.break_off();
                    return reading.await.map(|_| Some(Entered::Interrupted)).map_err(Failure::from);
                }
                () = &mut ends => {
                    handle.break_off();
                    // An input line whose terminal is gone does not notice it.
                    let _ = tokio::time::timeout(LAST_WORDS, &mut reading).await;
                    return Ok(None);
                }
                () = &mut quiet => {
                    quiet.as_mut().reset(Instant::now() + FOREVER);
                    let text = shown.transcript.finish_message();
                    background_text(shown, background, &text);
                    print_above(&handle, background);
                }
                Some(event) = chat.events.recv() => {
                    quiet.as_mut().reset(Instant::now() + QUIET);
                    happened(chat, shown, questions, event, background)?;
                    print_above(&handle, background);
                    if !questions.is_empty() {
                        handle.break_off();
                    }
                }
            }
        }
    }

    /// Carries out what the user typed.
    async fn entered(&mut self, text: String) -> Result<AfterTurn, Failure> {
        match typed(&text, &self.chat.view.commands()) {
            Typed::Nothing => Ok(AfterTurn::GoOn),
            Typed::Mistake(mistake) => {
                self.note(&mistake)?;
                Ok(AfterTurn::GoOn)
            }
            Typed::Command(ChatCommand::Quit) => Ok(AfterTurn::Leave),
            Typed::Command(command) => {
                if let Err(failure) = self.command(command).await {
                    self.shown.screen.commit(&format!("{failure}\n\n"))?;
                }
                Ok(AfterTurn::GoOn)
            }
            Typed::Prompt(text) => self.prompt(&text).await,
        }
    }

    async fn prompt(&mut self, text: &str) -> Result<AfterTurn, Failure> {
        self.said = SaidAnything::Yes;
        let embedding = match self.chat.client.profile().takes("resource") {
            true => Embedding::Accepted,
            false => Embedding::LinksOnly,
        };
        let content = content(text, &self.cwd, embedding).into();
        self.shown.screen.commit("\n")?;
        let questions = std::mem::take(&mut self.questions);
        let turn = TurnOnScreen::new(&mut self.chat, &mut self.shown, questions, &mut self.interrupts);
        match turn.prompt(&content).await? {
            AfterTurn::LogIn => self.log_in().await,
            after @ (AfterTurn::GoOn | AfterTurn::Leave | AfterTurn::StartAgain) => Ok(after),
        }
    }

    /// Lets the user log in after a turn that failed for that.
    async fn log_in(&mut self) -> Result<AfterTurn, Failure> {
        if self.chat.client.login_methods().is_empty() {
            return Ok(AfterTurn::GoOn);
        }
        let Conversation { client, events, .. } = &mut self.chat;
        match log_in(client, events, "Log in with:", &self.program).await {
            Ok(LoggedIn::ByAgent) => {
                self.note("logged in; send the prompt again (the Up key has it)")?;
                Ok(AfterTurn::GoOn)
            }
            Ok(LoggedIn::ByProgram) => {
                self.note(
                    "logged in; the agent starts again, then send the prompt again (the Up key has it)",
                )?;
                Ok(AfterTurn::StartAgain)
            }
            Err(failure) => {
                self.shown.screen.commit(&format!("{failure}\n\n"))?;
                Ok(AfterTurn::GoOn)
            }
        }
    }

    /// Prints a short remark of the chat itself.
    pub(super) fn note(&mut self, text: &str) -> Result<(), Failure> {
        let line = TextStyle::DIM.paint(self.shown.screen.color(), &visible(text));
        Ok(self.shown.screen.commit(&format!("{line}\n\n"))?)
    }

    fn completions(&self) -> Completions {
        let own = COMMANDS.map(|(name, what)| (name.to_owned(), what.to_owned()));
        let of_agent =
            self.chat.view.commands().into_iter().map(|command| {
                (visible(&command.name).into_owned(), visible(&command.description).into_owned())
            });
        let mut commands: Vec<(String, String)> = own.into_iter().collect();
        commands.extend(of_agent.filter(|(name, _)| COMMANDS.iter().all(|(own, _)| own != name)));
        let values = |command: &str, category: &str| {
            let choices = self.chat.view.option_of(category).map(|option| option.choices).unwrap_or_default();
            let command = command.to_owned();
            choices.into_iter().map(move |choice| {
                (command.clone(), visible(&choice.value).into_owned(), visible(&choice.name).into_owned())
            })
        };
        let values = values("mode", "mode").chain(values("model", "model")).collect();
        Completions { commands, values, cwd: self.cwd.clone() }
    }
}

/// Says who is there, and how to get help.
fn header(chat: &Conversation, screen: &Screen) -> String {
    let info = chat.client.profile().info.as_ref().map(Json::fields).unwrap_or_default();
    let name = info.text("title").or_else(|| info.text("name")).unwrap_or_else(|| "agent".to_owned());
    let version = info.text("version").map_or_else(String::new, |version| format!(" {version}"));
    let value = |category: &str| chat.view.option_of(category).map(|option| option.value_text());
    let parts = [Some(name + &version), value("mode"), value("model")];
    let about = parts.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    let about = visible(&about);
    let about = TextStyle::BOLD.paint(screen.color(), &cut_end(&about, screen.columns()));
    let help = TextStyle::DIM.paint(screen.color(), &cut_end(HELP, screen.columns()));
    format!("{about}\n{help}\n")
}
