//! The configuration of MCP servers, and decoding it from the list that an ACP client sends, in either protocol version.

use rethread::secret::Secret;
use rethread_core::{Fields, Json};

use super::scrub::Scrub;

/// The configuration of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerConfig {
    /// A program that communicates on stdin and stdout.
    Stdio {
        /// The name for users.
        name: String,
        /// The program.
        command: String,
        /// The arguments.
        args: Vec<String>,
        /// Environment variables, added to those of this process.
        env: Vec<(String, Secret)>,
    },
    /// Streamable HTTP.
    Http {
        /// The name for users.
        name: String,
        /// The URL of the endpoint.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, Secret)>,
    },
    /// The older HTTP transport: one stream of events, and a POST request for each message.
    Sse {
        /// The name for users.
        name: String,
        /// The URL of the stream.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, Secret)>,
    },
}

/// An invalid entry of the list. Never contains a value of `env` or `headers`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("MCP server {server}: {field} must be {expected}")]
pub struct ConfigError {
    /// The name of the server, or its position in the list.
    pub server: String,
    /// The name of the member.
    pub field: String,
    /// What was expected.
    pub expected: &'static str,
}

impl ServerConfig {
    /// The name for users.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            ServerConfig::Stdio { name, .. }
            | ServerConfig::Http { name, .. }
            | ServerConfig::Sse { name, .. } => name,
        }
    }

    /// A scrubber that removes the secrets of this configuration from text.
    pub(super) fn scrub(&self) -> Scrub {
        let mut scrub = Scrub::default();
        match self {
            ServerConfig::Stdio { args, env, .. } => {
                for (name, value) in env {
                    scrub.add(name, value);
                }
                scrub.add_args(args.iter().map(String::as_str));
            }
            ServerConfig::Http { url, headers, .. } | ServerConfig::Sse { url, headers, .. } => {
                for (name, value) in headers {
                    scrub.add_header(name, value);
                }
                scrub_address(&mut scrub, url);
            }
        }
        scrub
    }
}

/// Adds the secrets of a URL: a server may repeat its URL in a message.
fn scrub_address(scrub: &mut Scrub, url: &str) {
    let Ok(url) = reqwest::Url::parse(url) else { return };
    for (name, value) in url.query_pairs() {
        scrub.add(&name, &Secret::new(value));
    }
    // Encoded as in the URL, because that is how they are shown.
    for (name, value) in
        url.query().into_iter().flat_map(|query| query.split('&')).filter_map(|p| p.split_once('='))
    {
        scrub.add(name, &Secret::new(value));
    }
    for part in url.path_segments().into_iter().flatten() {
        scrub.add_if_key(part);
    }
    for part in [url.username(), url.password().unwrap_or_default()] {
        scrub.add_key(&Secret::new(part));
    }
}

/// Decodes `mcpServers` of either version; an entry without a type is a program.
///
/// An invalid entry becomes an error and does not affect the others.
#[must_use]
pub fn from_acp(servers: &Json) -> (Vec<ServerConfig>, Vec<ConfigError>) {
    let (mut read, mut wrong) = (Vec::new(), Vec::new());
    if servers.is_null() {
        return (read, wrong);
    }
    let Some(items) = servers.items() else {
        let expected = "a list of servers";
        wrong.push(ConfigError { server: "list".to_owned(), field: "mcpServers".to_owned(), expected });
        return (read, wrong);
    };
    for (at, item) in items.iter().enumerate() {
        match Entry::of(at, item).read() {
            Ok(server) => read.push(server),
            Err(error) => wrong.push(error),
        }
    }
    (read, wrong)
}

/// One entry of the list.
struct Entry {
    fields: Fields,
    label: String,
}

impl Entry {
    fn of(at: usize, item: &Json) -> Self {
        let fields = item.fields();
        let name = fields.text("name").filter(|name| !name.trim().is_empty());
        Self { label: name.unwrap_or_else(|| format!("number {}", at + 1)), fields }
    }

    fn read(&self) -> Result<ServerConfig, ConfigError> {
        let name = self.text("name")?;
        let kind = self.fields.get("type").filter(|kind| !kind.is_null());
        match kind.map(Json::as_string) {
            None => self.stdio(name),
            Some(Some(kind)) if kind == "stdio" => self.stdio(name),
            Some(Some(kind)) if kind == "http" => {
                Ok(ServerConfig::Http { name, url: self.url()?, headers: self.pairs("headers")? })
            }
            Some(Some(kind)) if kind == "sse" => {
                Ok(ServerConfig::Sse { name, url: self.url()?, headers: self.pairs("headers")? })
            }
            Some(_) => Err(self.wrong("type", "stdio, http or sse")),
        }
    }

    fn stdio(&self, name: String) -> Result<ServerConfig, ConfigError> {
        let (command, env) = (self.text("command")?, self.pairs("env")?);
        if env.iter().any(|(name, value)| name.contains(['=', '\0']) || value.reveal().contains('\0')) {
            return Err(self.wrong("env", "names without = and values without zero bytes"));
        }
        Ok(ServerConfig::Stdio { name, command, args: self.words("args")?, env })
    }

    fn url(&self) -> Result<String, ConfigError> {
        let url = self.text("url")?;
        let parsed = reqwest::Url::parse(&url).ok();
        let fits = parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if fits { Ok(url) } else { Err(self.wrong("url", "a URL that begins with http:// or https://")) }
    }

    fn text(&self, name: &str) -> Result<String, ConfigError> {
        let text = self.fields.text(name).filter(|text| !text.trim().is_empty() && !text.contains('\0'));
        text.ok_or_else(|| self.wrong(name, "a string that is not empty"))
    }

    fn words(&self, name: &str) -> Result<Vec<String>, ConfigError> {
        let wrong = || self.wrong(name, "a list of strings");
        self.list(name, wrong)?.iter().map(|item| item.as_string().ok_or_else(wrong)).collect()
    }

    fn pairs(&self, name: &str) -> Result<Vec<(String, Secret)>, ConfigError> {
        let wrong = || self.wrong(name, "a list of objects with name and value");
        let pair = |item: &Json| {
            let fields = item.fields();
            let name = fields.text("name").filter(|name| !name.is_empty());
            Some((name?, Secret::new(fields.text("value")?)))
        };
        self.list(name, wrong)?.iter().map(|item| pair(item).ok_or_else(wrong)).collect()
    }

    fn list(&self, name: &str, wrong: impl Fn() -> ConfigError) -> Result<Vec<Json>, ConfigError> {
        match self.fields.get(name).filter(|list| !list.is_null()) {
            None => Ok(Vec::new()),
            Some(list) => list.items().ok_or_else(wrong),
        }
    }

    fn wrong(&self, field: &str, expected: &'static str) -> ConfigError {
        ConfigError { server: self.label.clone(), field: field.to_owned(), expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<ServerConfig>, Vec<String>) {
        let (servers, wrong) = from_acp(&Json::parse(text.to_owned()).unwrap());
        (servers, wrong.iter().map(ToString::to_string).collect())
    }

    fn secrets(pairs: &[(&str, &str)]) -> Vec<(String, Secret)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
    }

    #[test]
    fn both_versions_are_read() {
        let program = |name: &str| ServerConfig::Stdio {
            name: name.to_owned(),
            command: "/bin/s".to_owned(),
            args: vec!["-x".to_owned()],
            env: secrets(&[("A", "1")]),
        };
        let (servers, wrong) = read(
            r#"[{"name":"one","command":"/bin/s","args":["-x"],"env":[{"name":"A","value":"1"}]},
                {"type":"stdio","name":"two","command":"/bin/s","args":["-x"],"env":[{"name":"A","value":"1"}]},
                {"type":"http","name":"h","url":"https://h/mcp","headers":[{"name":"K","value":"v"}]},
                {"type":"sse","name":"s","url":"http://s/sse"}]"#,
        );
        assert!(wrong.is_empty(), "{wrong:?}");
        let (url, headers) = ("https://h/mcp".to_owned(), secrets(&[("K", "v")]));
        let http = ServerConfig::Http { name: "h".to_owned(), url, headers };
        let sse = ServerConfig::Sse { name: "s".into(), url: "http://s/sse".into(), headers: Vec::new() };
        assert_eq!(servers, [program("one"), program("two"), http, sse]);
    }

    #[test]
    fn errors_name_the_member_without_its_value() {
        let (servers, wrong) = read(
            r#"[{"name":"good","command":"x"}, {"name":"no command"}, {"command":"x"}, 7,
                {"type":"acp","name":"a"}, {"type":"http","name":"h","url":"ftp://x"},
                {"name":"e","command":"x","env":{"A":"hunter2"}},
                {"name":"f","command":"x","env":[{"name":"A=B","value":"hunter2"}]}]"#,
        );
        assert_eq!(servers.len(), 1);
        assert_eq!(
            wrong,
            [
                "MCP server no command: command must be a string that is not empty",
                "MCP server number 3: name must be a string that is not empty",
                "MCP server number 4: name must be a string that is not empty",
                "MCP server a: type must be stdio, http or sse",
                "MCP server h: url must be a URL that begins with http:// or https://",
                "MCP server e: env must be a list of objects with name and value",
                "MCP server f: env must be names without = and values without zero bytes",
            ]
        );
        assert_eq!(read("{}").1, ["MCP server list: mcpServers must be a list of servers"]);
        assert_eq!(read("null"), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_configuration_shows_no_secret() {
        let (servers, _) = read(r#"[{"name":"s","command":"x","env":[{"name":"K","value":"hunter2"}]}]"#);
        assert!(!format!("{servers:?}").contains("hunter2"));
        let (servers, _) = read(r#"[{"type":"sse","name":"s","url":"http://u:hunter2@h/?key=opensesame"}]"#);
        assert_eq!(servers[0].scrub().text("hunter2 opensesame"), "[secret] [secret]");
        let (servers, _) = read(
            r#"[{"type":"http","name":"s","url":"http://h/s/0a1b2c3d4e5f6a7b8c9d/mcp?key=a%2Fb%2Fc",
                 "headers":[{"name":"X-Who","value":"Sesame7"}]}]"#,
        );
        let said = "Cannot POST /s/0a1b2c3d4e5f6a7b8c9d/mcp?key=a%2Fb%2Fc as Sesame7";
        assert_eq!(servers[0].scrub().result(said), "Cannot POST /s/[secret]/mcp?key=[secret] as [secret]");
        let (servers, _) = read(
            r#"[{"name":"s","command":"x","args":["--api-key=opensesame","--token","letmein","--dir","/home/me"]}]"#,
        );
        assert_eq!(servers[0].scrub().result("opensesame letmein /home/me"), "[secret] [secret] /home/me");
    }
}
