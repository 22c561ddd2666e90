//! What a client may do: all that its user may, or less for one that comes from elsewhere or only reads.

use std::path::{Path, PathBuf};

use rethread_core::{Fields, Json};
use serde_json::{Value, json};

use crate::edge::client_request::{ClientRequest, SessionRequest, Setup};
use crate::wire::{RpcError, code};

/// What a client may do.
#[derive(Clone, Debug, Default)]
pub struct ClientAccess {
    /// Its role.
    pub role: ClientRole,
    /// Where it comes from.
    pub origin: ClientOrigin,
}

/// The role of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientRole {
    /// It may do everything.
    #[default]
    Full,
    /// It may only look: list, search, and ask for the status of sessions.
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
        match self.role {
            ClientRole::Full => {}
            ClientRole::Observer => check_observer(call)?,
        }
        match (&self.origin, setup_of(call)) {
            (ClientOrigin::Remote(rules), Some(setup)) => rules.check(setup),
            (ClientOrigin::Remote(_), None) | (ClientOrigin::Local, _) => Ok(()),
        }
    }

    /// The answer to `initialize` as this client gets it: one from elsewhere has no terminal on this machine to log in
    /// with.
    pub(super) fn shown(&self, answer: Json) -> Json {
        let answer = with_role(&answer, self.role);
        match self.origin {
            ClientOrigin::Local => answer,
            ClientOrigin::Remote(_) => without_terminal_logins(&answer),
        }
    }
}

/// Says in `_meta.rethread` what the client may do.
fn with_role(answer: &Json, role: ClientRole) -> Json {
    let mut fields = answer.fields();
    let mut meta = fields.get("_meta").map(Json::fields).unwrap_or_default();
    let mut ours = meta.get("rethread").map(Json::fields).unwrap_or_default();
    ours.set("role", Json::of(role.name()));
    meta.set("rethread", ours.json());
    fields.set("_meta", meta.json());
    fields.json()
}

fn check_observer(call: &ClientRequest) -> Result<(), RpcError> {
    let allowed = match call {
        ClientRequest::List { .. } | ClientRequest::Search(_) | ClientRequest::Reading(_) => true,
        ClientRequest::Session { call, .. } => matches!(call, SessionRequest::Status),
        ClientRequest::New(_)
        | ClientRequest::Resume { .. }
        | ClientRequest::Fork { .. }
        | ClientRequest::Relay { .. } => false,
    };
    match allowed {
        true => Ok(()),
        false => Err(RpcError::new(code::NOT_ALLOWED, "an observer may only look")
            .with("role", ClientRole::Observer.name())
            .hint("use a token of the role full")),
    }
}

fn setup_of(call: &ClientRequest) -> Option<&Setup> {
    match call {
        ClientRequest::New(setup)
        | ClientRequest::Resume { setup, .. }
        | ClientRequest::Fork { setup, .. } => Some(setup),
        ClientRequest::List { .. }
        | ClientRequest::Search(_)
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
        assert_eq!(remote.shown(answer.clone()).value(), json!({"authMethods": [{"id": "b"}]}));
        assert_eq!(ClientAccess::default().shown(answer.clone()).value(), answer.value());
    }
}
