//! Logging in at an agent that requires it: the user chooses one of its methods.

use std::fmt;

use inquire::Select;
use rethread::client::ClientError;

use super::connection::{Connected, failure, with_events};
use crate::failure::{ExitCode, Failure};
use crate::output::escape::visible;

/// What to do if an agent requires a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginPolicy {
    /// Let the user choose a method.
    Ask,
    /// Fail.
    Fail,
}

/// A login method of an agent.
struct LoginChoice {
    id: String,
    line: String,
}

impl fmt::Display for LoginChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl Connected {
    /// Lets the user log in after this error; fails with it if the agent offers no method.
    pub(super) async fn log_in(&mut self, error: ClientError) -> Result<(), Failure> {
        let methods = self.methods();
        if methods.is_empty() {
            return Err(failure(error));
        }
        let question = format!("{} Log in with:", visible(&sentence(&error.to_string())));
        let choosing = tokio::task::spawn_blocking(move || Select::new(&question, methods).prompt());
        let Ok(method) = choosing.await.map_err(std::io::Error::other)? else {
            return Err(Failure::new(ExitCode::Interrupted, "the agent requires a login"));
        };
        let Self { client, events, .. } = self;
        with_events(events, client.authenticate(&method.id), drop).await.map_err(failure)
    }

    fn methods(&self) -> Vec<LoginChoice> {
        let methods = self.client.profile().auth_methods.iter();
        let choice = |method: &rethread_core::Fields| {
            let id = method.text("methodId").or_else(|| method.text("id"))?;
            let name = method.text("name").unwrap_or_else(|| id.clone());
            let what = method.text("description").map_or_else(String::new, |what| format!(": {what}"));
            Some(LoginChoice { id, line: visible(&format!("{name}{what}")).into_owned() })
        };
        methods.filter_map(choice).collect()
    }
}

/// An error as a sentence.
fn sentence(error: &str) -> String {
    let mut letters = error.trim_end_matches('.').chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}
