//! What a client may do: all that its user may, or less for one that comes from elsewhere or only reads.

use std::path::{Path, PathBuf};

use rethread_core::{Fields, Json};
use serde_json::{Value, json};

use crate::edge::client_request::{ClientRequest, SessionRequest, Setup};
use crate::edge::params::Params;
use crate::wire::{RpcError, code};

/// What a client may do.
#[derive(Clone, Debug, Default)]
pub struct ClientAccess {
    /// Its role.
    pub role: ClientRole,
    /// Where it comes from.
    pub origin: ClientOrigin,
    /// The only session that it may see, if it may not see all. Such a client is an observer, whatever its role.
    pub scope: Option<ClientScope>,
}

/// The only session that a client may see, with its sub-agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientScope {
    /// The id of the session.
    pub session: String,
    /// Whether it is shown with what looks like a secret.
    pub redaction: Redaction,
}

/// Whether what looks like a secret is replaced before a client is shown it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redaction {
    /// It is shown.
    #[default]
    Off,
    /// It is replaced. Text is then shown in whole turns.
    Secrets,
}

/// The role of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientRole {
    /// It may do everything.
    #[default]
    Full,
    /// It may only look: list and search sessions, read and follow them. It claims nothing, starts no agent and is asked nothing.
    Observer,
}

impl ClientRole {
    /// The name of the role.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Observer => "observer",
        }
    }
}

/// Where a client comes from.
#[derive(Clone, Debug, Default)]
pub enum ClientOrigin {
    /// The user of this machine, who could run any command anyway.
    #[default]
    Local,
    /// Somebody with a token.
    Remote(RemoteRules),
}

/// What clients from elsewhere may name.
#[derive(Clone, Debug)]
pub struct RemoteRules {
    /// The directories below which sessions may be opened.
    pub roots: Vec<PathBuf>,
    /// Whether they may have commands run as MCP servers.
    pub stdio_servers: StdioServers,
}

/// Whether clients may have commands run as MCP servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StdioServers {
    /// Such servers are refused.
    #[default]
    Refused,
    /// They are started.
    Allowed,
}

impl ClientAccess {
    /// Refuses a request that the client may not send.
    pub(super) fn check(&self, call: &ClientRequest) -> Result<(), RpcError> {
        if let Some(scope) = &self.scope {
            scope.check(call)?;
        }
        match self.role() {
            ClientRole::Full => self.check_setup(call),
            ClientRole::Observer => check_observer(call),
        }
    }

    fn check_setup(&self, call: &ClientRequest) -> Result<(), RpcError> {
        match (&self.origin, setup_of(call)) {
            (ClientOrigin::Remote(rules), Some(setup)) => rules.check(setup),
            (ClientOrigin::Remote(_), None) | (ClientOrigin::Local, _) => Ok(()),
        }
    }

    /// The role that counts: a client that may see only one session is an observer.
    #[must_use]
    pub fn role(&self) -> ClientRole {
        if self.scope.is_some() { ClientRole::Observer } else { self.role }
    }

    /// Whether the client is shown what looks like a secret.
    #[must_use]
    pub fn redaction(&self) -> Redaction {
        self.scope.as_ref().map_or(Redaction::Off, |scope| scope.redaction)
    }

    /// The same with the role that the client itself asks for in `_meta.rethread.role` of `initialize`, which can only be a
    /// lower one.
    pub(super) fn lowered(&self, params: &Params) -> Result<Self, RpcError> {
        let own = params.meta().and_then(|meta| meta.fields().take("rethread")).map(|own| own.fields());
        let role = match own.and_then(|own| own.get("role").cloned()) {
            None => self.role,
            Some(asked) => match asked.as_string().as_deref() {
                Some("observer") => ClientRole::Observer,
                Some("full") => self.role,
                Some(_) | None => {
                    let expected = "\"full\" or \"observer\"";
                    return Err(RpcError::field("_meta.rethread.role", &asked.value(), expected));
                }
            },
        };
        Ok(Self { role, ..self.clone() })
    }

    /// The answer to `initialize` as this client gets it: one from elsewhere has no terminal on this machine to log in
    /// with.
    pub(super) fn shown(&self, answer: Json) -> Json {
        let answer = match self.origin {
            ClientOrigin::Local => answer,
            ClientOrigin::Remote(_) => without_terminal_logins(&answer),
        };
        self.with_role(&answer)
    }

    /// Adds the role, and the session if the client may see only one, to `_meta.rethread`.
    fn with_role(&self, answer: &Json) -> Json {
        let mut answer = answer.fields();
        let mut meta = answer.get("_meta").map(Json::fields).unwrap_or_default();
        let mut own = meta.get("rethread").map(Json::fields).unwrap_or_default();
        own.set("role", Json::of(self.role().name()));
        if let Some(scope) = &self.scope {
            own.set("session", Json::of(&scope.session));
        }
        meta.set("rethread", own.json());
        answer.set("_meta", meta.json());
        answer.json()
    }
}

impl ClientScope {
    /// Any other session does not exist for the client; what is about all sessions is not for it.
    fn check(&self, call: &ClientRequest) -> Result<(), RpcError> {
        let named = match call {
            ClientRequest::List { .. }
            | ClientRequest::Search(_)
            | ClientRequest::Subscribe(_)
            | ClientRequest::Unsubscribe(_)
            | ClientRequest::BatchGet(_) => return Err(only_look("this token is for one session")),
            ClientRequest::New(_) => None,
            ClientRequest::Clients(session) => session.clone(),
            ClientRequest::Reading(reading) => match reading.session() {
                Some(session) => Some(session.to_owned()),
                None => return Err(only_look("this token is for one session")),
            },
            ClientRequest::Resume { session, .. }
            | ClientRequest::Fork { session, .. }
            | ClientRequest::Session { session, .. } => Some(session.clone()),
            ClientRequest::Relay { params, .. } => params.fields().text("sessionId"),
        };
        match named {
            Some(other) if other != self.session => Err(RpcError::unknown_session(&other)),
            Some(_) | None => Ok(()),
        }
    }
}

/// The requests that an observer may send.
fn check_observer(call: &ClientRequest) -> Result<(), RpcError> {
    let allowed = match call {
        ClientRequest::List { .. }
        | ClientRequest::Search(_)
        | ClientRequest::Subscribe(_)
        | ClientRequest::Unsubscribe(_)
        | ClientRequest::BatchGet(_)
        | ClientRequest::Clients(_)
        | ClientRequest::Reading(_)
        | ClientRequest::Resume { .. } => true,
        ClientRequest::Session { call, .. } => match call {
            SessionRequest::Status => true,
            SessionRequest::Prompt { .. }
            | SessionRequest::SetOption { .. }
            | SessionRequest::SetTitle(_)
            | SessionRequest::Close
            | SessionRequest::Delete
            | SessionRequest::Archive
            | SessionRequest::Unarchive
            | SessionRequest::CancelToolCall(_)
            | SessionRequest::CancelTerminal(_) => false,
        },
        ClientRequest::New(_) | ClientRequest::Fork { .. } | ClientRequest::Relay { .. } => false,
    };
    if allowed { Ok(()) } else { Err(only_look("an observer may only look")) }
}

fn only_look(why: &str) -> RpcError {
    RpcError::new(code::NOT_ALLOWED, why)
        .with("role", ClientRole::Observer.name())
        .hint("use a token of the role full")
}

fn setup_of(call: &ClientRequest) -> Option<&Setup> {
    match call {
        ClientRequest::New(setup)
        | ClientRequest::Resume { setup, .. }
        | ClientRequest::Fork { setup, .. } => Some(setup),
        ClientRequest::List { .. }
        | ClientRequest::Search(_)
        | ClientRequest::Subscribe(_)
        | ClientRequest::Unsubscribe(_)
        | ClientRequest::BatchGet(_)
        | ClientRequest::Clients(_)
        | ClientRequest::Reading(_)
        | ClientRequest::Session { .. }
        | ClientRequest::Relay { .. } => None,
    }
}

impl RemoteRules {
    fn check(&self, setup: &Setup) -> Result<(), RpcError> {
        self.check_directory("cwd", &setup.cwd)?;
        for (at, root) in setup.roots.iter().enumerate() {
            self.check_directory(&format!("additionalDirectories[{at}]"), root)?;
        }
        match (self.stdio_servers, setup.servers.iter().find(|server| is_stdio(server))) {
            (StdioServers::Refused, Some(server)) => {
                let name = server.text("name").unwrap_or_default();
                Err(RpcError::field("mcpServers", &json!(name), "servers with an address")
                    .hint("this server runs no commands of remote clients; configure the MCP server there"))
            }
            (StdioServers::Refused, None) | (StdioServers::Allowed, _) => Ok(()),
        }
    }

    /// Links are followed first, so that none leads out of the roots.
    fn check_directory(&self, field: &str, path: &str) -> Result<(), RpcError> {
        let real = |path: &Path| path.canonicalize().ok();
        let inside = real(Path::new(path)).is_some_and(|found| {
            self.roots.iter().filter_map(|root| real(root)).any(|root| found.starts_with(root))
        });
        match inside {
            true => Ok(()),
            // The same answer whether it exists or not.
            false => Err(RpcError::field(field, &json!(path), "a directory below the roots of the server")
                .hint("the server is configured with `[serve] roots`")),
        }
    }
}

fn is_stdio(server: &Fields) -> bool {
    server.text("type").is_none_or(|kind| kind == "stdio")
}

fn without_terminal_logins(answer: &Json) -> Json {
    let mut answer = answer.value();
    if let Some(Value::Array(methods)) = answer.get_mut("authMethods") {
        methods.retain(|method| method.get("type").and_then(Value::as_str) != Some("terminal"));
    }
    answer.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(root: &Path) -> RemoteRules {
        RemoteRules { roots: vec![root.to_owned()], stdio_servers: StdioServers::Refused }
    }

    fn setup(cwd: &Path) -> Setup {
        Setup { cwd: cwd.display().to_string(), ..Setup::default() }
    }

    #[test]
    fn directories_must_be_below_the_roots_whatever_links_say() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
        for made in [inside.join("deep"), outside.clone()] {
            std::fs::create_dir_all(made).unwrap();
        }
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        let rules = rules(&inside);
        assert!(rules.check(&setup(&inside)).is_ok() && rules.check(&setup(&inside.join("deep"))).is_ok());
        let wrong = [outside.clone(), inside.join("link"), inside.join("../out"), inside.join("missing")];
        for path in wrong {
            assert!(rules.check(&setup(&path)).is_err(), "{}", path.display());
        }
        let roots = vec![outside.display().to_string()];
        assert!(rules.check(&Setup { roots, ..setup(&inside) }).is_err());
    }

    #[test]
    fn commands_of_remote_clients_are_refused_unless_they_are_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let server = |text: &str| Json::parse(text.to_owned()).unwrap().fields();
        let with = |text: &str| Setup { servers: vec![server(text)], ..setup(folder.path()) };
        let (command, address) = (
            with(r#"{"type":"stdio","name":"s","command":"rm","args":[],"env":[]}"#),
            with(r#"{"type":"http","name":"s","url":"https://x.example","headers":[]}"#),
        );
        let refused = rules(folder.path()).check(&command).unwrap_err();
        assert_eq!(refused.code, code::INVALID_PARAMS);
        assert!(rules(folder.path()).check(&address).is_ok());
        let allowed = RemoteRules { stdio_servers: StdioServers::Allowed, ..rules(folder.path()) };
        assert!(allowed.check(&command).is_ok());
    }

    #[test]
    fn an_observer_may_only_look() {
        let access = ClientAccess { role: ClientRole::Observer, ..ClientAccess::default() };
        let refused = access.check(&ClientRequest::New(Setup::default())).unwrap_err();
        assert_eq!(refused.code, code::NOT_ALLOWED);
        let session = |call| ClientRequest::Session { session: "s".to_owned(), call };
        assert!(access.check(&session(SessionRequest::Status)).is_ok());
        assert!(access.check(&session(SessionRequest::Delete)).is_err());
        assert!(ClientAccess::default().check(&session(SessionRequest::Delete)).is_ok());
    }

    #[test]
    fn a_remote_client_is_offered_no_login_in_a_terminal() {
        let answer: Json = json!({"authMethods": [{"id": "a", "type": "terminal"}, {"id": "b"}]}).into();
        let remote =
            ClientAccess { origin: ClientOrigin::Remote(rules(Path::new("/"))), ..ClientAccess::default() };
        assert_eq!(remote.shown(answer.clone()).value()["authMethods"], json!([{"id": "b"}]));
        assert_eq!(
            ClientAccess::default().shown(answer.clone()).value()["authMethods"],
            answer.value()["authMethods"]
        );
    }
}
