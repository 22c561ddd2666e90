//! The shape of `config.toml`, and reading it. Values that TOML allows and we do not are mistakes with their line.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use rethread::importer::readers;
use rethread::secret::Secret;
use rethread_assistant::mcp::ServerConfig;
use rethread_assistant::model::ProviderConfig;
use rethread_assistant::{AssistantDefaults, Mode};
use serde::Deserialize;
use toml::Spanned;

use super::mistake::{FilePosition, Mistake, explain, nearest};
use super::notify::NotifyConfig;
use super::serve::ServeConfig;

/// The name of the built-in assistant, which no other agent can have.
pub(crate) const ASSISTANT: &str = "assistant";

/// What the file says.
#[derive(Debug, Default)]
pub(crate) struct ConfigFile {
    /// The agent that is used if none is named.
    pub(crate) default_agent: Option<String>,
    /// The agents by name.
    pub(crate) agents: BTreeMap<String, AgentConfig>,
    /// What new sessions of the assistant begin with.
    pub(crate) assistant: AssistantDefaults,
    /// The model providers.
    pub(crate) providers: Vec<ProviderConfig>,
    /// The address of the store, with its password; nothing for the embedded one.
    pub(crate) store: Option<Secret>,
    /// After how many days without a change sessions are deleted; nothing if they are kept.
    pub(crate) keep_days: Option<NonZeroU32>,
    /// The settings of `rethread serve`.
    pub(crate) serve: ServeConfig,
    /// The tools whose new sessions a server imports, by name.
    pub(crate) watch: Vec<String>,
    /// The command that the server runs when a session needs its user.
    pub(crate) notify: NotifyConfig,
    /// The key that the hosts of a shared store have in common.
    pub(crate) cluster_key: Option<Secret>,
    /// How hosts reach each other.
    pub(crate) cluster: ClusterConfig,
}

/// An agent with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentConfig {
    /// The program and its arguments; never empty.
    pub(crate) command: Vec<String>,
    /// Environment variables of this agent alone.
    pub(crate) env: Vec<(String, Secret)>,
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    default_agent: Option<String>,
    #[serde(default)]
    agents: BTreeMap<Spanned<String>, WrittenAgent>,
    #[serde(default)]
    assistant: WrittenAssistant,
    #[serde(default)]
    provider: Vec<Spanned<ProviderConfig>>,
    #[serde(default)]
    store: WrittenStore,
    #[serde(default)]
    serve: ServeConfig,
    #[serde(default)]
    import: WrittenImport,
    #[serde(default)]
    notify: NotifyConfig,
    #[serde(default)]
    cluster_key: Option<PlainSecret>,
    #[serde(default)]
    cluster: ClusterConfig,
}

/// How the hosts of a shared store reach each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClusterConfig {
    /// The certificates to trust in place of those of the system.
    #[serde(default)]
    pub(crate) ca: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenImport {
    #[serde(default)]
    watch: Vec<Spanned<String>>,
}

/// The store as it is written: its address, or a table.
#[derive(Debug, Default)]
struct WrittenStore {
    address: Option<PlainSecret>,
    keep_days: Option<NonZeroU32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStoreTable {
    #[serde(default)]
    address: Option<PlainSecret>,
    #[serde(default)]
    keep_days: Option<NonZeroU32>,
}

impl<'de> Deserialize<'de> for WrittenStore {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherForm;

        impl<'de> serde::de::Visitor<'de> for EitherForm {
            type Value = WrittenStore;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the address of a store, or a table")
            }

            fn visit_str<E: serde::de::Error>(self, address: &str) -> Result<WrittenStore, E> {
                let address = Some(PlainSecret(Secret::new(address.to_owned())));
                Ok(WrittenStore { address, keep_days: None })
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<WrittenStore, A::Error> {
                let table =
                    WrittenStoreTable::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(WrittenStore { address: table.address, keep_days: table.keep_days })
            }
        }

        deserializer.deserialize_any(EitherForm)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAgent {
    command: Spanned<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<Spanned<String>, PlainSecret>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAssistant {
    #[serde(default)]
    model: Option<Spanned<String>>,
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    mcp_servers: Vec<Spanned<WrittenServer>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenServer {
    name: String,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, PlainSecret>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    transport: Option<WebTransport>,
    #[serde(default)]
    headers: BTreeMap<String, PlainSecret>,
}

/// How a server at an address is reached.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WebTransport {
    #[default]
    Http,
    Sse,
}

/// A secret that is kept as it is written, with its white space.
#[derive(Debug)]
struct PlainSecret(Secret);

impl<'de> Deserialize<'de> for PlainSecret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Secret::new(String::deserialize(deserializer)?)))
    }
}

impl ConfigFile {
    /// Parses the text of a file.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Self, Mistake> {
        let source = Source { file, text };
        let written: Written = toml::from_str(text)
            .map_err(|error| explain(&source.at(error.span().map_or(0, |s| s.start)), &error))?;
        Ok(Self {
            default_agent: written.default_agent,
            agents: agents(source, written.agents)?,
            assistant: assistant(source, written.assistant)?,
            providers: providers(source, written.provider)?,
            keep_days: written.store.keep_days,
            store: written.store.address.map(|address| address.0),
            serve: written.serve,
            watch: watched(source, written.import.watch)?,
            notify: written.notify,
            cluster_key: written.cluster_key.map(|key| key.0),
            cluster: written.cluster,
        })
    }
}

/// The file that is read.
#[derive(Clone, Copy)]
struct Source<'a> {
    file: &'a Path,
    text: &'a str,
}

impl<'a> Source<'a> {
    fn at(self, at: usize) -> FilePosition<'a> {
        FilePosition { file: self.file, text: self.text, at }
    }

    /// A mistake in the value of a key that follows this position.
    fn wrong(self, at: usize, key: &str, what: &str) -> Mistake {
        self.at(at).of_key(key).mistake(format!("key `{key}`: {what}"))
    }
}

fn agents(
    source: Source<'_>,
    written: BTreeMap<Spanned<String>, WrittenAgent>,
) -> Result<BTreeMap<String, AgentConfig>, Mistake> {
    written.into_iter().map(|(name, agent)| agent_of(source, name, agent)).collect()
}

fn agent_of(
    source: Source<'_>,
    name: Spanned<String>,
    written: WrittenAgent,
) -> Result<(String, AgentConfig), Mistake> {
    let (at, name) = (name.span().start, name.into_inner());
    let bad_name = |what: &str| source.at(at).mistake(format!("agent `{name}`: {what}"));
    if name == ASSISTANT {
        return Err(bad_name("this is the name of the built-in assistant; choose another one"));
    }
    if name.is_empty() || name.starts_with('-') || name.contains(|c: char| c == '/' || c.is_control()) {
        return Err(bad_name("a name must not be empty, begin with `-` or contain a slash"));
    }
    let (at, command) = (written.command.span().start, written.command.into_inner());
    if command.first().is_none_or(|program| program.trim().is_empty()) {
        return Err(source.at(at).mistake(format!("agent `{name}`: key `command`: it names no program")));
    }
    let mut env = Vec::new();
    for (variable, value) in written.env {
        let (at, variable) = (variable.span().start, variable.into_inner());
        if variable.is_empty() || variable.contains(['=', '\0']) || value.0.reveal().contains('\0') {
            let what = format!("agent `{name}`: key `env`: this cannot be an environment variable");
            return Err(source.at(at).mistake(what));
        }
        env.push((variable, value.0));
    }
    Ok((name, AgentConfig { command, env }))
}

fn assistant(source: Source<'_>, written: WrittenAssistant) -> Result<AssistantDefaults, Mistake> {
    if let Some(model) = &written.model
        && model.get_ref().split_once('/').is_none_or(|(provider, id)| provider.is_empty() || id.is_empty())
    {
        let what = "a model is named as `provider/model`";
        return Err(source.at(model.span().start).mistake(format!("key `model`: {what}")));
    }
    let mut servers: Vec<ServerConfig> = Vec::new();
    for server in written.mcp_servers {
        let at = server.span().start;
        let server = server_of(source, at, server.into_inner())?;
        if servers.iter().any(|earlier| earlier.name() == server.name()) {
            return Err(source.wrong(at, "name", &format!("two servers are called {}", server.name())));
        }
        servers.push(server);
    }
    Ok(AssistantDefaults { model: written.model.map(Spanned::into_inner), mode: written.mode, servers })
}

fn server_of(source: Source<'_>, at: usize, written: WrittenServer) -> Result<ServerConfig, Mistake> {
    let WrittenServer { name, command, args, env, url, transport, headers } = written;
    let wrong = |key: &str, what: &str| Err(source.wrong(at, key, &format!("MCP server {name:?}: {what}")));
    let pairs = |values: BTreeMap<String, PlainSecret>| {
        values.into_iter().map(|(name, value)| (name, value.0)).collect::<Vec<_>>()
    };
    if name.trim().is_empty() {
        return wrong("name", "its name is empty");
    }
    match (command, url) {
        (Some(_), Some(_)) => wrong("url", "it has a command and an address; it can have only one of them"),
        (None, None) => wrong("name", "it has neither `command` nor `url`"),
        (Some(_), None) if !headers.is_empty() => wrong("headers", "only a server with `url` has headers"),
        (Some(_), None) if transport.is_some() => {
            wrong("transport", "only a server with `url` has a transport")
        }
        (Some(command), None) if command.trim().is_empty() => wrong("command", "it names no program"),
        (Some(command), None) => Ok(ServerConfig::Stdio { name, command, args, env: pairs(env) }),
        (None, Some(_)) if !args.is_empty() => wrong("args", "only a server with `command` has arguments"),
        (None, Some(_)) if !env.is_empty() => wrong("env", "only a server with `command` has an environment"),
        (None, Some(url)) if !url.starts_with("http://") && !url.starts_with("https://") => {
            wrong("url", "an address begins with http:// or https://")
        }
        (None, Some(url)) => {
            let headers = pairs(headers);
            Ok(match transport.unwrap_or_default() {
                WebTransport::Http => ServerConfig::Http { name, url, headers },
                WebTransport::Sse => ServerConfig::Sse { name, url, headers },
            })
        }
    }
}

fn watched(source: Source<'_>, written: Vec<Spanned<String>>) -> Result<Vec<String>, Mistake> {
    let tools: Vec<&str> = readers().iter().map(|reader| reader.tool().name).collect();
    for name in &written {
        if !tools.contains(&name.get_ref().as_str()) {
            let what = match nearest(name.get_ref(), &tools) {
                Some(meant) => format!("unknown tool `{}`: did you mean `{meant}`?", name.get_ref()),
                None => format!("unknown tool: expected one of {}", tools.join(", ")),
            };
            return Err(source.at(name.span().start).mistake(format!("key `watch`: {what}")));
        }
    }
    let mut names: Vec<String> = written.into_iter().map(Spanned::into_inner).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn providers(
    source: Source<'_>,
    written: Vec<Spanned<ProviderConfig>>,
) -> Result<Vec<ProviderConfig>, Mistake> {
    let mut providers: Vec<ProviderConfig> = Vec::new();
    for provider in written {
        let at = provider.span().start;
        let provider = provider.into_inner();
        provider.check().map_err(|bad| source.wrong(at, bad.key, &bad.what))?;
        if providers.iter().any(|earlier| earlier.name == provider.name) {
            return Err(source.wrong(at, "name", &format!("two providers are called {}", provider.name)));
        }
        providers.push(provider);
    }
    Ok(providers)
}

#[cfg(test)]
mod tests;
