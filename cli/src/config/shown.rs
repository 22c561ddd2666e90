//! The configuration for people and programs: everything that is in effect, without a single secret. Made from what was
//! read, so that secrets in comments are not shown either.

use rethread::secret::Secret;
use rethread::secret::scrub::Scrub;
use rethread_assistant::mcp::ServerConfig;
use rethread_assistant::model::{ModelConfig, ProviderConfig};
use serde_json::{Map, Value, json};

use super::ConfigFile;

/// Stands for a secret.
const HIDDEN: &str = "[secret]";

/// The configuration as JSON. Providers include those of the environment.
pub(crate) fn as_json(config: &ConfigFile, providers: &[ProviderConfig]) -> Value {
    let agents: Map<String, Value> = config
        .agents
        .iter()
        .map(|(name, agent)| {
            (name.clone(), json!({"command": without_keys(&agent.command), "env": hidden(&agent.env)}))
        })
        .collect();
    let servers: Vec<Value> = config.assistant.servers.iter().map(server).collect();
    json!({
        "default_agent": config.default_agent,
        "agents": agents,
        "assistant": {
            "model": config.assistant.model,
            "mode": config.assistant.mode.map(|mode| mode.id()),
            "mcp_servers": servers,
        },
        "store": {"address": config.store.as_ref().map(store_shown), "keep_days": config.keep_days},
        "serve": config.serve.shown(),
        "import": {"watch": config.watch},
        "notify": config.notify.shown(),
        "cluster_key": config.cluster_key.as_ref().map(|_| HIDDEN),
        "cluster": {"ca": config.cluster.ca},
        "provider": providers.iter().map(provider).collect::<Vec<_>>(),
    })
}

/// The address of a store without its password.
fn store_shown(store: &Secret) -> String {
    let address = store.reveal().parse::<rethread::store::postgres::PostgresAddress>();
    address.map_or_else(|_| HIDDEN.to_owned(), |address| address.to_string())
}

/// The configuration as TOML that could be written into the file, apart from its secrets.
pub(crate) fn as_toml(config: &ConfigFile, providers: &[ProviderConfig]) -> String {
    let mut value = as_json(config, providers);
    remove_empty(&mut value);
    let table: toml::Table = serde_json::from_value(value).expect("nothing in it is null");
    toml::to_string(&table).expect("a table can be written")
}

/// Removes members that say nothing, and inside of lists too.
fn remove_empty(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(remove_empty);
            members.retain(|_, member| !is_empty(member));
        }
        Value::Array(items) => items.iter_mut().for_each(remove_empty),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The words of a command line, with what looks like a key hidden.
pub(crate) fn without_keys(words: &[String]) -> Vec<String> {
    let mut scrub = Scrub::default();
    scrub.add_args(words.iter().map(String::as_str));
    words.iter().map(|word| scrub.text(word)).collect()
}

/// An address without user name, password and query.
pub(crate) fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    scheme + host + &path.map(|path| format!("/{path}")).unwrap_or_default()
}

fn hidden(values: &[(String, Secret)]) -> Value {
    values.iter().map(|(name, _)| (name.clone(), json!(HIDDEN))).collect::<Map<_, _>>().into()
}

fn server(server: &ServerConfig) -> Value {
    match server {
        ServerConfig::Stdio { name, command, args, env } => {
            json!({"name": name, "command": command, "args": without_keys(args), "env": hidden(env)})
        }
        ServerConfig::Http { name, url, headers } => {
            json!({"name": name, "url": without_password(url), "transport": "http", "headers": hidden(headers)})
        }
        ServerConfig::Sse { name, url, headers } => {
            json!({"name": name, "url": without_password(url), "transport": "sse", "headers": hidden(headers)})
        }
    }
}

fn provider(provider: &ProviderConfig) -> Value {
    json!({
        "name": provider.name,
        "kind": provider.kind.name(),
        "base_url": provider.base_url.as_deref().map(without_password),
        "key": provider.key().map(|_| HIDDEN),
        "key_env": provider.key_env,
        "models": provider.models.iter().map(model).collect::<Vec<_>>(),
    })
}

fn model(model: &ModelConfig) -> Value {
    let price = model.price.map(|price| {
        json!({"input": price.input, "output": price.output, "cached": price.cached,
            "cache_write": price.cache_write, "up_to": price.up_to})
    });
    let efforts = model.efforts.as_ref().map(|efforts| efforts.iter().map(|e| e.name()).collect::<Vec<_>>());
    json!({
        "id": model.id,
        "name": model.name,
        "context_window": model.context_window,
        "max_output": model.max_output,
        "price": price,
        "efforts": efforts,
        "takes_temperature": model.takes_temperature,
        "max_tools": model.max_tools,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_shown_has_no_secret_and_can_be_read_again() {
        let text = r#"
            # a comment with sk-comment-1234
            default_agent = "codex"
            cluster_key = "hosts-of-this-team-know-it-1234"
            [agents.codex]
            command = ["codex-acp", "--token", "sk-argument-1234", "--api-key=sk-other-1234", "-c", "x=1"]
            env = { OPENAI_API_KEY = "sk-env-1234", PLAIN = "short" }
            [cluster]
            ca = "/etc/team.pem"
            [serve]
            advertise = "https://a.example:7373"
            [assistant]
            model = "work/m"
            mode = "ask"
            [[assistant.mcp_servers]]
            name = "files"
            command = "mcp-files"
            args = ["--key", "sk-args-1234"]
            env = { TOKEN = "sk-token-1234" }
            [[assistant.mcp_servers]]
            name = "web"
            url = "https://me:sk-user-1234@x.example/mcp?key=sk-query-1234"
            headers = { Authorization = "Bearer sk-header-1234" }
            [[provider]]
            name = "work"
            kind = "openai"
            base_url = "http://me:sk-url-1234@localhost:8080/v1"
            key = "sk-key-1234"
            [[provider.models]]
            id = "m"
            efforts = ["low"]
            price = { input = 0.5, output = 1.0 }
        "#;
        let config = ConfigFile::parse(Path::new("config.toml"), text).unwrap();
        let toml = as_toml(&config, &config.providers);
        let json = as_json(&config, &config.providers).to_string();
        for shown in [&toml, &json] {
            assert!(!shown.contains("1234"), "{shown}");
            assert!(!shown.contains("short"), "all of `env` counts as secret: {shown}");
            for word in [
                "codex-acp",
                "x=1",
                "mcp-files",
                "https://x.example/mcp",
                "http://localhost:8080/v1",
                "/etc/team.pem",
                "https://a.example:7373",
            ] {
                assert!(shown.contains(word), "{word}: {shown}");
            }
        }
        let again = ConfigFile::parse(Path::new("config.toml"), &toml).unwrap();
        assert_eq!(as_json(&again, &again.providers).to_string(), json);
    }

    #[test]
    fn an_empty_configuration_shows_nothing() {
        assert_eq!(as_toml(&ConfigFile::default(), &[]), "");
    }

    #[test]
    fn addresses_lose_what_may_be_secret() {
        let cases = [
            ("http://a:b@localhost:1/v1?k=v#x", "http://localhost:1/v1"),
            ("localhost:11434", "localhost:11434"),
            ("https://x.example", "https://x.example"),
        ];
        for (url, shown) in cases {
            assert_eq!(without_password(url), shown);
        }
    }
}
