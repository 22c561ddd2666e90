//! Carries out the slash commands of a chat.

use std::fmt;
use std::path::PathBuf;

use inquire::{InquireError, Select};
use rethread::client::view::{OptionInfo, SessionView};
use rethread::client::{AskedQuestion, ClientError};
use rethread::edge::client_request::Setup;
use rethread::store::ListQuery;
use rethread_core::{Json, clean_title};
use serde_json::Value;

use super::connection::{ChatEvent, failure, with_events};
use super::export::export;
use super::opening::{last_turns, setup_of};
use super::slash::{COMMANDS, ChatCommand};
use super::talk::TerminalChat;
use super::transcript::{Moment, Transcript};
use crate::failure::{ExitCode, Failure};
use crate::output::escape::visible;
use crate::output::ids::short_ids;
use crate::output::width::{padded, width};
use crate::picker;
use crate::resolve::current_directories;

/// How many sessions can be chosen from.
const MAX_SESSIONS: usize = 500;

impl TerminalChat {
    /// Carries out a command.
    pub(super) async fn command(&mut self, command: ChatCommand) -> Result<(), Failure> {
        match command {
            ChatCommand::Help => self.help(),
            ChatCommand::Mode(value) => self.set_category("mode", value).await,
            ChatCommand::Model(value) => self.set_category("model", value).await,
            ChatCommand::Options(None) => self.show_options(),
            ChatCommand::Options(Some((name, value))) => self.set_named(&name, &value).await,
            ChatCommand::Fork => self.fork().await,
            ChatCommand::Sessions => self.switch().await,
            ChatCommand::Title(title) => self.set_title(&title).await,
            ChatCommand::Export(file) => {
                let id = self.chat.session.id().clone();
                let path = export(self.store.as_ref(), &id, &self.cwd, file.as_deref()).await?;
                self.note(&format!("written to {}", path.display()))
            }
            // The caller leaves.
            ChatCommand::Quit => Ok(()),
        }
    }

    fn help(&mut self) -> Result<(), Failure> {
        let own = COMMANDS.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned()));
        let of_agent = self.chat.view.commands().into_iter();
        let of_agent = of_agent.filter(|command| COMMANDS.iter().all(|(own, _)| *own != command.name));
        let of_agent: Vec<_> = of_agent.map(|command| (command.name, command.description)).collect();
        let mut text = columns(&own.map(|(name, what)| (format!("/{name}"), what)).collect::<Vec<_>>());
        if !of_agent.is_empty() {
            text += "\nCommands of the agent:\n";
            text += &columns(
                &of_agent.into_iter().map(|(name, what)| (format!("/{name}"), what)).collect::<Vec<_>>(),
            );
        }
        text += "\n@file sends a file along. Tab completes.\nAlt-Enter or a backslash at the end begins a new line.\n\
            Ctrl-C cancels a turn; twice leaves.\n";
        Ok(self.shown.screen.commit(&format!("{text}\n"))?)
    }

    fn show_options(&mut self) -> Result<(), Failure> {
        let rows: Vec<(String, String)> = self
            .chat
            .view
            .options()
            .iter()
            .map(|option| {
                let values: Vec<&str> = option.choices.iter().map(|choice| choice.value.as_str()).collect();
                let of =
                    if values.is_empty() { String::new() } else { format!("  of {}", values.join(", ")) };
                (option.id.clone(), format!("{}{of}", option.value_text()))
            })
            .collect();
        let text = if rows.is_empty() { "The agent has no options.\n".to_owned() } else { columns(&rows) };
        Ok(self.shown.screen.commit(&format!("{text}\n"))?)
    }

    async fn set_category(&mut self, category: &str, value: Option<String>) -> Result<(), Failure> {
        let Some(option) = self.chat.view.option_of(category) else {
            return Err(Failure::plain(&format!("the agent offers no choice of the {category}")));
        };
        let value = match value {
            Some(value) => value,
            None => choose_value(option.clone()).await?,
        };
        self.set(&option, &value).await
    }

    async fn set_named(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let options = self.chat.view.options();
        let option = options.iter().find(|option| option.id == name || option.name == name);
        let Some(option) = option else {
            return Err(Failure::new(ExitCode::NotFound, format!("there is no option {name}"))
                .hint("/options shows the options"));
        };
        self.set(option, value).await
    }

    async fn set(&mut self, option: &OptionInfo, value: &str) -> Result<(), Failure> {
        let value = match (&option.value, value) {
            (Value::Bool(_), "yes" | "on" | "true") => Json::of(&true),
            (Value::Bool(_), "no" | "off" | "false") => Json::of(&false),
            (_, value) => {
                let named =
                    option.choices.iter().find(|choice| choice.value == value || choice.name == value);
                Json::of(named.map_or(value, |choice| choice.value.as_str()))
            }
        };
        let session = self.chat.session.clone();
        self.call(session.set_option(&option.id, &value)).await?;
        let now = self.chat.view.options().into_iter().find(|known| known.id == option.id);
        let now = now.map_or_else(String::new, |option| option.value_text());
        self.note(&format!("{} is now {now}", option.name))
    }

    async fn set_title(&mut self, title: &str) -> Result<(), Failure> {
        let title = clean_title(title);
        if title.is_empty() {
            return Err(Failure::new(ExitCode::Usage, "the title has no visible characters"));
        }
        let id = self.chat.session.id().clone();
        let setting = self.chat.client.set_title(&id, &title);
        let (view, questions) = (&mut self.chat.view, &mut self.questions);
        let each = |event| apply(view, questions, event);
        with_events(&mut self.chat.events, setting, each).await.map_err(failure)?;
        self.note(&format!("the title is now {title}"))
    }

    /// Waits for a call and applies the events that come with it.
    async fn call<T>(&mut self, call: impl Future<Output = Result<T, ClientError>>) -> Result<T, Failure> {
        let (view, questions) = (&mut self.chat.view, &mut self.questions);
        with_events(&mut self.chat.events, call, |event| apply(view, questions, event)).await.map_err(failure)
    }

    async fn fork(&mut self) -> Result<(), Failure> {
        let old = self.chat.session.clone();
        let setup = Setup { cwd: self.cwd.display().to_string(), ..Setup::default() };
        let mut view = SessionView::default();
        let forking = self.chat.client.fork(old.id(), &setup, None);
        let questions = &mut self.questions;
        let each = |event| apply(&mut view, questions, event);
        let fork = with_events(&mut self.chat.events, forking, each).await;
        self.chat.session = fork.map_err(failure)?;
        self.chat.view = view;
        let short = short_ids(&[old.id().as_str()])[0].to_owned();
        self.leave_behind(old).await;
        self.note(&format!("this is a fork now; the session it came from is {short}"))
    }

    async fn switch(&mut self) -> Result<(), Failure> {
        let query = ListQuery { limit: MAX_SESSIONS, ..ListQuery::default() };
        let current = self.chat.session.id().clone();
        let mut rows = self.store.list(&query).await?.rows;
        rows.retain(|row| row.id != current);
        if rows.is_empty() {
            return Err(Failure::new(ExitCode::NotFound, "there are no other sessions"));
        }
        let here = current_directories()?;
        rows.sort_by_key(|row| !here.contains(&row.cwd));
        let chosen = tokio::task::spawn_blocking(move || picker::choose_session(rows, &here)).await;
        let Ok(chosen) = chosen.map_err(std::io::Error::other)? else {
            return self.note("nothing was chosen");
        };
        let Some(row) = self.store.find(&chosen).await? else {
            return Err(Failure::new(ExitCode::NotFound, "the session was deleted"));
        };
        let from = last_turns(self.store.as_ref(), &row).await?;
        let (screen, mut view) = (&mut self.shown.screen, SessionView::default());
        let mut transcript = Transcript::new(screen.columns(), screen.color(), Moment::Replay);
        let setup = setup_of(&row);
        let opening = self.chat.client.attach(&row.id, &setup, &from);
        let (questions, events) = (&mut self.questions, &mut self.chat.events);
        let opened = with_events(events, opening, |event| match event {
            ChatEvent::Happened(_, event) => {
                if let Some(change) = view.apply(&event) {
                    let _ = screen.commit(&transcript.change(&view, &change));
                }
            }
            ChatEvent::Asked(question) => questions.push(question),
            ChatEvent::Ended(_) => {}
        })
        .await;
        let session = opened.map_err(failure)?;
        let rest = transcript.end_turn(&view);
        self.shown.screen.commit(&format!("{rest}\n"))?;
        view.forget_items();
        let old = std::mem::replace(&mut self.chat.session, session);
        self.chat.view = view;
        self.cwd = PathBuf::from(&row.cwd);
        self.leave_behind(old).await;
        Ok(())
    }

    /// Closes a session that the user has left; it stays in the store.
    async fn leave_behind(&mut self, old: rethread::client::ClientSession) {
        let (view, questions) = (&mut self.chat.view, &mut self.questions);
        questions.retain(|question| question.session != *old.id());
        let closing = old.close();
        // One that cannot be closed is closed with the connection.
        let _ = with_events(&mut self.chat.events, closing, |event| {
            let of_old = match &event {
                ChatEvent::Happened(session, _) => session == old.id(),
                ChatEvent::Asked(question) => question.session == *old.id(),
                ChatEvent::Ended(_) => true,
            };
            if !of_old {
                apply(view, questions, event);
            }
        })
        .await;
    }
}

/// Applies an event, and keeps a question to be asked before the next prompt.
fn apply(view: &mut SessionView, questions: &mut Vec<AskedQuestion>, event: ChatEvent) {
    match event {
        ChatEvent::Happened(_, event) => drop(view.apply(&event)),
        ChatEvent::Asked(question) => questions.push(question),
        ChatEvent::Ended(_) => {}
    }
}

async fn choose_value(option: OptionInfo) -> Result<String, Failure> {
    let choosing = tokio::task::spawn_blocking(move || {
        let choices: Vec<ValueChoice> = option
            .choices
            .iter()
            .map(|choice| {
                let mark = if option.value == choice.value.as_str() { " (now)" } else { "" };
                let name =
                    if choice.name == choice.value { String::new() } else { format!("  {}", choice.name) };
                let line = visible(&format!("{}{name}{mark}", choice.value)).into_owned();
                ValueChoice { value: choice.value.clone(), line }
            })
            .collect();
        Select::new(&format!("{}:", visible(&option.name)), choices).with_page_size(12).prompt()
    });
    match choosing.await.map_err(std::io::Error::other)? {
        Ok(choice) => Ok(choice.value),
        Err(InquireError::OperationCanceled | InquireError::OperationInterrupted) => {
            Err(Failure::new(ExitCode::Interrupted, "nothing was chosen"))
        }
        Err(error) => Err(Failure::plain(&error.to_string())),
    }
}

struct ValueChoice {
    value: String,
    line: String,
}

impl fmt::Display for ValueChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

/// Two columns of text, which may be hostile.
fn columns(rows: &[(String, String)]) -> String {
    let rows: Vec<_> = rows.iter().map(|(name, what)| (visible(name), visible(what))).collect();
    let widest = rows.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    rows.iter().map(|(name, what)| format!("  {}  {what}\n", padded(name, widest))).collect()
}
