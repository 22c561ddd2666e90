//! The ways to log in that an agent offers: by a call, by a command on a terminal, or by environment variables.

use rethread_core::{Fields, Json};

use super::{AcpClient, ClientError, ClientHandler};

/// A way to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginMethod {
    /// The id that [`AcpClient::authenticate`] takes.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// What the user has to do.
    pub description: Option<String>,
    /// Who does it.
    pub kind: LoginKind,
}

/// Who logs in, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginKind {
    /// The agent, when it is called.
    Agent,
    /// The user, in the agent's own program on a terminal. It is the agent's command with more arguments; the exit status
    /// 0 means that it worked. Agents offer it only to clients with
    /// [`ClientService::TerminalLogin`](super::ClientService::TerminalLogin).
    Terminal {
        /// The arguments to append to those of the agent.
        args: Vec<String>,
        /// The environment variables to add.
        env: Vec<(String, String)>,
    },
    /// The user, with these environment variables, before the agent is started.
    Variables(Vec<String>),
    /// Something that this library does not know.
    Other(String),
}

impl LoginMethod {
    /// Reads a method in canonical form; nothing if it has no id.
    fn read(method: &Fields) -> Option<Self> {
        let id = method.text("methodId").or_else(|| method.text("id"))?;
        let name = method.text("name").unwrap_or_else(|| id.clone());
        let kind = match method.text("type").as_deref() {
            None | Some("agent") => LoginKind::Agent,
            Some("terminal") => LoginKind::Terminal { args: args(method), env: env(method) },
            Some("env_var") => LoginKind::Variables(variables(method)),
            Some(other) => LoginKind::Other(other.to_owned()),
        };
        Some(Self { id, name, description: method.text("description"), kind })
    }
}

impl<H: ClientHandler> AcpClient<H> {
    /// The ways to log in that the agent offers.
    #[must_use]
    pub fn login_methods(&self) -> Vec<LoginMethod> {
        self.profile().auth_methods.iter().filter_map(LoginMethod::read).collect()
    }

    /// Refuses a login that the agent does not offer, or that it does not carry out itself.
    pub(super) fn check_login(&self, login: &str) -> Result<(), ClientError> {
        let methods = self.login_methods();
        let is_this = |method: &&LoginMethod| method.id == login && method.kind == LoginKind::Agent;
        match methods.iter().find(is_this) {
            Some(_) => Ok(()),
            None => Err(ClientError::NotOffered(format!("the login {login}"))),
        }
    }
}

fn items(method: &Fields, name: &str) -> Vec<Json> {
    method.get(name).and_then(Json::items).unwrap_or_default()
}

fn args(method: &Fields) -> Vec<String> {
    items(method, "args").iter().filter_map(|word| word.read().ok()).collect()
}

fn env(method: &Fields) -> Vec<(String, String)> {
    let pair = |variable: &Json| {
        let variable = variable.fields();
        Some((variable.text("name")?, variable.text("value")?))
    };
    items(method, "env").iter().filter_map(pair).collect()
}

fn variables(method: &Fields) -> Vec<String> {
    let named = items(method, "vars").into_iter().filter_map(|variable| variable.fields().text("name"));
    named.chain(method.text("varName")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(method: serde_json::Value) -> LoginKind {
        LoginMethod::read(&Json::from(method).fields()).expect("it has an id").kind
    }

    #[test]
    fn methods_are_read_by_their_type() {
        assert_eq!(kind(json!({"methodId": "a", "name": "A"})), LoginKind::Agent);
        let terminal = json!({"methodId": "t", "type": "terminal", "args": ["login", 1],
            "env": [{"name": "K", "value": "v"}, {"name": "odd"}]});
        let env = vec![("K".to_owned(), "v".to_owned())];
        assert_eq!(kind(terminal), LoginKind::Terminal { args: vec!["login".to_owned()], env });
        let variables = json!({"methodId": "e", "type": "env_var", "vars": [{"name": "KEY"}]});
        assert_eq!(kind(variables), LoginKind::Variables(vec!["KEY".to_owned()]));
        assert_eq!(kind(json!({"methodId": "o", "type": "_odd"})), LoginKind::Other("_odd".to_owned()));
        assert_eq!(LoginMethod::read(&Json::from(json!({"name": "no id"})).fields()), None);
    }
}
