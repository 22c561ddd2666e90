//! One turn on the terminal: shows what the agent does, asks its questions, and cancels on Ctrl-C.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use rethread::client::view::PermissionChoice;
use rethread::client::{AskedQuestion, ClientError};
use rethread::wire::code;
use rethread_core::{Json, QuestionKind, Stop};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::connection::{ChatEvent, Conversation};
use super::form::{FormAnswer, fill_in};
use super::keys::{Keyboard, forget_typed};
use super::notes::{seconds, turn_end_lines};
use super::permission::PermissionPolicy;
use super::question::OpenPermission;
use super::screen::{LiveLines, Screen};
use super::transcript::Transcript;
use crate::failure::Failure;
use crate::markdown::style::TextStyle;
use crate::output::escape::{visible, visible_lines};

/// How often the status line is drawn.
const TICK: Duration = Duration::from_millis(120);
const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// How many events are kept while a form is filled in; then the agent waits.
const MAX_KEPT: usize = 10_000;

/// What follows a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterTurn {
    /// The next prompt.
    GoOn,
    /// The user wants to leave.
    Leave,
    /// The agent requires a login.
    LogIn,
    /// The agent has to be started again.
    StartAgain,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnGoal {
    /// The end of the turn.
    TurnEnd,
    /// The answers to the open questions.
    Answers,
}

/// The terminal of a chat, and what is shown on it.
pub(crate) struct ChatScreen {
    /// The terminal.
    pub(crate) screen: Screen,
    /// What is shown.
    pub(crate) transcript: Transcript,
    /// How permissions are answered without asking the user, if they are.
    pub(crate) unasked: Option<PermissionPolicy>,
}

/// A turn that runs.
pub(crate) struct TurnOnScreen<'a> {
    chat: &'a mut Conversation,
    shown: &'a mut ChatScreen,
    started: Instant,
    spinner: usize,
    cancels: usize,
    goal: TurnGoal,
    waiting: VecDeque<AskedQuestion>,
    asking: Option<OpenPermission>,
    keyboard: Option<Keyboard>,
    interrupts: &'a mut Signal,
}

impl<'a> TurnOnScreen<'a> {
    /// Prepares a turn, with questions that are open already.
    pub(crate) fn new(
        chat: &'a mut Conversation,
        shown: &'a mut ChatScreen,
        questions: Vec<AskedQuestion>,
        interrupts: &'a mut Signal,
    ) -> Self {
        Self {
            chat,
            shown,
            started: Instant::now(),
            spinner: 0,
            cancels: 0,
            goal: TurnGoal::TurnEnd,
            waiting: questions.into(),
            asking: None,
            keyboard: None,
            interrupts,
        }
    }

    /// Sends a prompt and shows everything until the end of the turn.
    pub(crate) async fn prompt(mut self, content: &Json) -> Result<AfterTurn, Failure> {
        let session = self.chat.session.clone();
        let outcome = self.until(session.prompt(content)).await?;
        self.end(outcome)
    }

    /// Asks the open questions until none is left.
    pub(crate) async fn answer_questions(mut self) -> Result<AfterTurn, Failure> {
        self.goal = TurnGoal::Answers;
        self.until(std::future::pending::<()>()).await?;
        self.shown.screen.set_live(LiveLines::default())?;
        Ok(if self.cancels > 1 { AfterTurn::Leave } else { AfterTurn::GoOn })
    }

    /// Shows what happens until the call is answered; nothing if the user leaves or, without a turn, has answered all
    /// questions.
    async fn until<T>(&mut self, call: impl Future<Output = T>) -> Result<Option<T>, Failure> {
        let mut call = pin!(call);
        let mut ticks = tokio::time::interval(TICK);
        let mut sizes = signal(SignalKind::window_change())?;
        let mut ends = pin!(asked_to_end());
        self.ask_next().await?;
        loop {
            let is_asking = self.asking.is_some() || !self.waiting.is_empty();
            if self.goal == TurnGoal::Answers && !is_asking {
                return Ok(None);
            }
            tokio::select! {
                biased;
                Some(()) = self.interrupts.recv() => {
                    self.cancels += 1;
                    if self.cancels > 1 { return Ok(None); }
                    self.cancel().await?;
                }
                () = &mut ends => return Ok(None),
                Some(()) = sizes.recv() => self.resize()?,
                key = next_key(self.keyboard.as_mut()) => self.key(key?).await?,
                Some(event) = self.chat.events.recv() => self.event(event).await?,
                outcome = &mut call => {
                    while let Ok(event) = self.chat.events.try_recv() {
                        self.event(event).await?;
                    }
                    return Ok(Some(outcome));
                }
                _ = ticks.tick() => self.tick()?,
            }
        }
    }

    async fn cancel(&mut self) -> Result<(), Failure> {
        // An agent that has ended needs no cancel.
        let _ = self.chat.session.cancel().await;
        Ok(self.shown.screen.set_live(LiveLines::status("cancelling · Ctrl-C again leaves"))?)
    }

    async fn event(&mut self, event: ChatEvent) -> Result<(), Failure> {
        match event {
            ChatEvent::Happened(session, event) => {
                if let Some(change) = self.chat.apply(&session, &event) {
                    let text = self.shown.transcript.change(&self.chat.view, &change);
                    self.shown.screen.commit(&text)?;
                }
                self.withdraw_settled().await
            }
            ChatEvent::Asked(question) => {
                self.waiting.push_back(question);
                self.ask_next().await
            }
            ChatEvent::Ended(reason) => Err(Failure::plain(&reason)),
        }
    }

    /// Takes a question away that the agent no longer asks.
    async fn withdraw_settled(&mut self) -> Result<(), Failure> {
        let view = &self.chat.view;
        let is_open = |question: &AskedQuestion| view.questions().iter().any(|open| open.id == question.id);
        self.waiting.retain(is_open);
        if self.asking.as_ref().is_some_and(|asking| !is_open(&asking.question)) {
            self.close_question("no longer asked")?;
            return self.ask_next().await;
        }
        Ok(())
    }

    /// Shows the next question, if none is being asked.
    async fn ask_next(&mut self) -> Result<(), Failure> {
        while self.asking.is_none() {
            let Some(question) = self.waiting.pop_front() else { return Ok(()) };
            match question.kind {
                QuestionKind::Permission => self.permission(OpenPermission::new(question)).await?,
                QuestionKind::Elicitation => self.fill_in(question).await?,
            }
        }
        Ok(())
    }

    /// Shows a permission question, and answers it if the command line says how.
    async fn permission(&mut self, asking: OpenPermission) -> Result<(), Failure> {
        let choice = self.shown.unasked.and_then(|policy| policy.choose(&asking.choices()));
        self.ask(asking)?;
        match choice {
            Some(choice) => self.answer(&choice).await,
            None => Ok(()),
        }
    }

    fn ask(&mut self, asking: OpenPermission) -> Result<(), Failure> {
        let (columns, color) = (self.shown.screen.columns(), self.shown.screen.color());
        let lines = asking.lines(&self.chat.view, columns, color);
        if let Some(call) = asking.call() {
            self.shown.transcript.changes_seen(&call);
        }
        let text = self.shown.transcript.lines(&lines);
        forget_typed();
        self.shown.screen.commit(&text)?;
        self.shown.screen.set_live(LiveLines::status(asking.status()))?;
        self.keyboard = Some(Keyboard::open()?);
        self.asking = Some(asking);
        Ok(())
    }

    async fn key(&mut self, key: char) -> Result<(), Failure> {
        let choice = self.asking.as_ref().and_then(|asking| asking.answer(key)).cloned();
        let Some(choice) = choice else { return Ok(()) };
        self.answer(&choice).await?;
        self.ask_next().await
    }

    async fn answer(&mut self, choice: &PermissionChoice) -> Result<(), Failure> {
        let asking = self.close_question(&visible(&choice.name))?;
        if let Some(asking) = asking {
            asking.question.select(&choice.id).await;
        }
        Ok(())
    }

    fn close_question(&mut self, said: &str) -> Result<Option<OpenPermission>, Failure> {
        self.keyboard = None;
        let line = TextStyle::DIM.paint(self.shown.screen.color(), &format!("  → {said}"));
        self.shown.screen.set_live(LiveLines::default())?;
        self.shown.screen.commit(&format!("{line}\n"))?;
        Ok(self.asking.take())
    }

    /// Lets the user fill in a form; what happens meanwhile is shown afterwards.
    async fn fill_in(&mut self, question: AskedQuestion) -> Result<(), Failure> {
        let body = question.body.value();
        let message = visible_lines(body["message"].as_str().unwrap_or_default()).into_owned();
        let text = self.shown.transcript.lines(&format!("? {message}\n"));
        forget_typed();
        self.shown.screen.set_live(LiveLines::default())?;
        self.shown.screen.commit(&text)?;
        let mut form = tokio::task::spawn_blocking(move || fill_in(&body));
        let mut kept = VecDeque::new();
        let answer = loop {
            tokio::select! {
                answer = &mut form => break answer.map_err(io::Error::other)?,
                Some(event) = self.chat.events.recv(), if kept.len() < MAX_KEPT => kept.push_back(event),
            }
        };
        match answer {
            FormAnswer::Filled(answer) => question.answer(&answer.into()).await,
            FormAnswer::Left => question.cancel().await,
            FormAnswer::Interrupted => {
                question.cancel().await;
                self.cancels += 1;
                self.cancel().await?;
            }
        }
        for event in kept {
            Box::pin(self.event(event)).await?;
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Failure> {
        if self.asking.is_some() || self.cancels > 0 {
            return Ok(());
        }
        self.spinner = (self.spinner + 1) % SPINNER.len();
        let activity = self.shown.transcript.activity(&self.chat.view);
        let time = seconds(self.started.elapsed());
        let status = Some(format!("{} {time} · {activity}", SPINNER[self.spinner]));
        let text = self.shown.transcript.open_lines(self.shown.screen.live_rows());
        Ok(self.shown.screen.set_live(LiveLines { text, status })?)
    }

    fn resize(&mut self) -> Result<(), Failure> {
        self.shown.screen.resized()?;
        self.shown.transcript.resize(self.shown.screen.columns());
        Ok(())
    }

    fn end(self, outcome: Option<Result<Stop, ClientError>>) -> Result<AfterTurn, Failure> {
        let color = self.shown.screen.color();
        self.shown.screen.set_live(LiveLines::default())?;
        let has_lines = self.shown.transcript.has_lines();
        let rest = self.shown.transcript.end_turn(&self.chat.view);
        self.shown.screen.commit(&rest)?;
        let gap = if has_lines || !rest.is_empty() { "\n" } else { "" };
        let lines = match &outcome {
            None => return Ok(AfterTurn::Leave),
            Some(Ok(stop)) => {
                let stop = self.stop_reason(stop);
                turn_end_lines(&stop, &self.chat.view, self.started.elapsed(), color)
            }
            Some(Err(error)) => {
                let failure = super::connection::failure(error.clone());
                format!("{failure}\n")
            }
        };
        self.shown.screen.commit(&format!("{gap}{lines}\n"))?;
        self.chat.view.forget_items();
        Ok(if outcome.as_ref().is_some_and(requires_login) { AfterTurn::LogIn } else { AfterTurn::GoOn })
    }
}

impl TurnOnScreen<'_> {
    /// Why the turn ended. Some agents say nothing.
    fn stop_reason(&self, stop: &Stop) -> Stop {
        match stop.reason.as_str() {
            "" if self.cancels > 0 => Stop::plain("cancelled"),
            "" => Stop::plain("end_turn"),
            _ => stop.clone(),
        }
    }
}

/// Whether a turn failed because nobody is logged in.
fn requires_login(outcome: &Result<Stop, ClientError>) -> bool {
    match outcome {
        Err(error) => error.requires_login(),
        Ok(stop) => {
            let error = stop.error.as_ref().map(Json::fields).unwrap_or_default();
            error.get("code").and_then(|found| found.read().ok()) == Some(code::AUTH_REQUIRED)
        }
    }
}

async fn next_key(keyboard: Option<&mut Keyboard>) -> io::Result<char> {
    match keyboard {
        Some(keyboard) => keyboard.key().await,
        None => std::future::pending().await,
    }
}

/// Waits for a signal that ends the process, other than Ctrl-C.
pub(crate) async fn asked_to_end() {
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::hangup()) => {}
    }
}
