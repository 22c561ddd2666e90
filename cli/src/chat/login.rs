//! Logging in at an agent that requires it: the user chooses one of its methods. The agent carries it out, or its own program
//! does so on this terminal.

use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use inquire::Select;
use rethread::client::{AcpClient, ClientError, LoginKind, LoginMethod};
use tokio::process::Command;
use tokio::sync::mpsc;

use super::agent::AgentArg;
use super::connection::{ChatEvent, ChatHandler, Connected, failure, with_events};
use super::keys::UsualKeyboard;
use super::turn::asked_to_end;
use crate::agents::{AgentChoice, AgentInvocation};
use crate::failure::{ExitCode, Failure};
use crate::output::escape::visible;
use crate::shell_word::shell_word;

/// Whether the user can be asked to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginPolicy {
    /// On this terminal.
    Ask,
    /// Nobody can be asked.
    Fail,
}

/// What has to happen after a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoggedIn {
    /// Nothing: the agent knows of it.
    ByAgent,
    /// The agent has to be started again.
    ByProgram,
}

/// A login method in a list.
struct LoginChoice(LoginMethod);

impl fmt::Display for LoginChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.0.description.as_ref().map_or_else(String::new, |what| format!(": {what}"));
        f.write_str(&visible(&format!("{}{what}", self.0.name)))
    }
}

impl Connected {
    /// Lets the user log in after this error; fails with it if the agent offers no method. Gives the connection if it can
    /// still be used.
    pub(super) async fn log_in(
        mut self,
        error: ClientError,
        agent: &AgentChoice,
    ) -> Result<Option<Self>, Failure> {
        if self.client.login_methods().is_empty() {
            self.close().await;
            return Err(failure(error));
        }
        let question = format!("{} Log in with:", visible(&sentence(&error.to_string())));
        match log_in(&self.client, &mut self.events, &question, agent).await {
            Ok(LoggedIn::ByAgent) => Ok(Some(self)),
            Ok(LoggedIn::ByProgram) => {
                self.close().await;
                Ok(None)
            }
            Err(failure) => {
                self.close().await;
                Err(failure)
            }
        }
    }
}

/// Lets the user choose a method, and logs in with it.
pub(super) async fn log_in(
    client: &AcpClient<ChatHandler>,
    events: &mut mpsc::Receiver<ChatEvent>,
    question: &str,
    agent: &AgentChoice,
) -> Result<LoggedIn, Failure> {
    let (question, methods) = (question.to_owned(), client.login_methods());
    let methods = methods.into_iter().map(LoginChoice).collect();
    let choosing = tokio::task::spawn_blocking(move || Select::new(&question, methods).prompt());
    let Ok(LoginChoice(method)) = choosing.await.map_err(std::io::Error::other)? else {
        return Err(Failure::new(ExitCode::Interrupted, "the agent requires a login"));
    };
    match (&method.kind, agent) {
        (LoginKind::Agent, _) => {
            with_events(events, client.authenticate(&method.id), drop).await.map_err(failure)?;
            Ok(LoggedIn::ByAgent)
        }
        (LoginKind::Terminal { args, env }, AgentChoice::Command(invocation)) => {
            run_on_terminal(invocation, args, env).await.map(|()| LoggedIn::ByProgram)
        }
        (LoginKind::Variables(names), _) => Err(set_variables(names)),
        (LoginKind::Terminal { .. } | LoginKind::Other(_), _) => {
            let message = format!("rethread cannot log in with {}", method.name);
            Err(Failure::plain(&message).hint("log in with the agent's own command, then try again"))
        }
    }
}

/// Runs the agent's program with more arguments, on this terminal.
async fn run_on_terminal(
    agent: &AgentInvocation,
    args: &[String],
    env: &[(String, String)],
) -> Result<(), Failure> {
    let _usual = UsualKeyboard::begin();
    let program = agent.words.first().cloned().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(agent.words.iter().skip(1)).args(args).kill_on_drop(true);
    command.envs(agent.env.iter().map(|(name, value)| (name, value.reveal())));
    command.envs(env.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn().map_err(|error| Failure::agent_not_started(&program, &error))?;
    let status = tokio::select! {
        status = child.wait() => status?,
        () = asked_to_end() => return Err(Failure::interrupted()),
    };
    if status.success() { Ok(()) } else { Err(not_logged_in(agent, args, status)) }
}

fn not_logged_in(agent: &AgentInvocation, args: &[String], status: ExitStatus) -> Failure {
    if status.signal() == Some(libc::SIGINT) {
        return Failure::new(ExitCode::Interrupted, "the login was interrupted");
    }
    let words = agent.words.iter().map(|word| word.to_string_lossy().into_owned()).chain(args.to_vec());
    let command = words.map(|word| shell_word(&word).into_owned()).collect::<Vec<_>>().join(" ");
    let how = status.code().map_or_else(|| status.to_string(), |code| format!("status {code}"));
    Failure::plain(&format!("the login failed: `{command}` ended with {how}"))
        .hint("try again, or choose another way to log in")
}

fn set_variables(names: &[String]) -> Failure {
    Failure::plain("the agent reads its login from environment variables")
        .hint(format!("set {}, then start the chat again", names.join(" and ")))
}

/// The failure of a command without a terminal whose agent requires a login.
pub(crate) fn login_required(error: &ClientError, methods: &[LoginMethod], agent: &AgentArg) -> Failure {
    let message = format!("the agent requires a login: {error}");
    let variables = methods.iter().find_map(|method| match &method.kind {
        LoginKind::Variables(names) => Some(names.join(" and ")),
        LoginKind::Agent | LoginKind::Terminal { .. } | LoginKind::Other(_) => None,
    });
    let or = variables.map_or_else(String::new, |names| format!(", or set {names}"));
    let hint = error.hint().unwrap_or_else(|| {
        format!("start `rethread chat{}` on a terminal, which lets you log in{or}", agent.words())
    });
    Failure::plain(&message).hint(hint)
}

/// An error as a sentence.
fn sentence(error: &str) -> String {
    let mut letters = error.trim_end_matches('.').chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}
