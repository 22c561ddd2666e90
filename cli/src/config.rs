//! What the user has set up: `config.toml`, and the variables that providers of models are usually set up by.

use std::io::ErrorKind;
use std::path::Path;

use rethread::assistant::model::{ProviderConfig, ProviderKind, Secret};
use serde::Deserialize;

use crate::environment::variable;

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The providers of models.
    #[serde(default)]
    provider: Vec<ProviderConfig>,
}

/// The kinds that a variable alone sets up, with the name that the provider then has.
const USUAL: [(&str, ProviderKind); 4] = [
    ("openai", ProviderKind::OpenAi),
    ("anthropic", ProviderKind::Anthropic),
    ("gemini", ProviderKind::Gemini),
    ("ollama", ProviderKind::Ollama),
];

/// The providers of the file, then those that only the environment knows of.
pub(crate) fn providers(file: &Path) -> Result<Vec<ProviderConfig>, String> {
    let mut providers = read(file)?.provider;
    for provider in &mut providers {
        complete(provider, &variable);
    }
    for (name, kind) in USUAL {
        let found = from_environment(name, kind, &variable);
        let found = found.filter(|found| !providers.iter().any(|provider| is_same(provider, found)));
        providers.extend(found);
    }
    Ok(providers)
}

/// Whether both are the same service. A server of the user's own does not stand in for the one that it is compatible
/// with.
fn is_same(written: &ProviderConfig, found: &ProviderConfig) -> bool {
    let place = |provider: &ProviderConfig| {
        provider.base_url.as_deref().map(|url| url.trim().trim_end_matches('/').to_owned())
    };
    let alike = written.kind.usual_url_env() == found.kind.usual_url_env();
    written.name == found.name || alike && place(written) == place(found)
}

fn read(file: &Path) -> Result<File, String> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(File::default()),
        Err(error) => return Err(format!("{} cannot be read: {error}", file.display())),
    };
    // The message of the parser shows the line, and the line may be a key.
    toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        format!("{}, line {line}: {}", file.display(), error.message())
    })
}

/// Adds what the environment says of a provider of the file.
fn complete(provider: &mut ProviderConfig, variable: &impl Fn(&str) -> Option<String>) {
    let named = USUAL.iter().any(|(name, kind)| provider.name == *name && provider.kind == *kind);
    if named {
        // One address and one key, in variables that belong together.
        let usual = provider.kind.usual_key_env().map(str::to_owned);
        provider.key_env = provider.key_env.take().or(usual);
        provider.base_url = provider.base_url.take().or_else(|| variable(provider.kind.usual_url_env()));
    }
    if provider.key().is_none() {
        let usual = provider.key_variable();
        let other = usual.filter(|usual| Some(*usual) == provider.kind.usual_key_env());
        let other = other.and(provider.kind.other_key_env());
        let key = usual.and_then(variable).or_else(|| other.and_then(variable));
        provider.key = key.map(|key| Secret::key(&key));
    }
}

/// A provider that is set up by variables alone, if it is.
fn from_environment(
    name: &str,
    kind: ProviderKind,
    variable: &impl Fn(&str) -> Option<String>,
) -> Option<ProviderConfig> {
    let mut provider = ProviderConfig::new(name, kind);
    complete(&mut provider, variable);
    (provider.key().is_some() || provider.base_url.is_some()).then_some(provider)
}

/// The variables that may hold the key of a provider: those that the file names, and the usual ones.
pub(crate) fn key_variables(file: &Path) -> Vec<String> {
    let usual = ProviderKind::ALL.into_iter().flat_map(|kind| [kind.usual_key_env(), kind.other_key_env()]);
    // A file that cannot be read is told of when it is needed.
    let named = read(file).unwrap_or_default().provider.into_iter().filter_map(|provider| provider.key_env);
    usual.flatten().map(str::to_owned).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Result<Vec<ProviderConfig>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        read(&path).map(|file| file.provider)
    }

    #[test]
    fn providers_and_their_models_are_read() {
        let text = "[[provider]]\nname = \"mine\"\nkind = \"openai\"\nbase_url = \"http://localhost:1\"\n\
                    [[provider.models]]\nid = \"m\"\ncontext_window = 1000\n";
        let providers = written(text).unwrap();
        assert_eq!(providers[0].name, "mine");
        assert_eq!(providers[0].models[0].context_window, Some(1000));
    }

    /// An environment with OpenAI's variables and one more.
    fn set(name: &str) -> Option<String> {
        let variables = [
            ("OPENAI_API_KEY", " sk-openai\n"),
            ("OPENAI_BASE_URL", "http://localhost:1/v1"),
            ("MINE", "sk-mine"),
        ];
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_usual_variables_are_for_the_usual_provider_and_for_nobody_else() {
        let usual = from_environment("openai", ProviderKind::OpenAi, &set).unwrap();
        assert_eq!(usual.key(), Some(&Secret::key("sk-openai")));
        assert_eq!(usual.base_url.as_deref(), Some("http://localhost:1/v1"));
        assert_eq!(usual.key_place(), "OPENAI_API_KEY");
        assert!(from_environment("ollama", ProviderKind::Ollama, &set).is_none());

        let mut at_home = ProviderConfig::new("work", ProviderKind::OpenAiResponses);
        complete(&mut at_home, &set);
        assert_eq!(at_home.key(), Some(&Secret::key("sk-openai")));
        assert_eq!(at_home.base_url, None);

        let mut elsewhere = ProviderConfig::new("local", ProviderKind::OpenAi);
        elsewhere.base_url = Some("http://localhost:2".to_owned());
        complete(&mut elsewhere, &set);
        assert_eq!(elsewhere.key(), None, "the key of OpenAI is not told to somebody else");
        elsewhere.key_env = Some("MINE".to_owned());
        complete(&mut elsewhere, &set);
        assert_eq!(elsewhere.key(), Some(&Secret::key("sk-mine")));
    }

    #[test]
    fn the_key_of_gemini_may_have_either_of_its_names() {
        let found = |names: &'static [&'static str]| {
            let variable = |name: &str| names.contains(&name).then(|| format!("value of {name}"));
            from_environment("gemini", ProviderKind::Gemini, &variable)?.key
        };
        assert_eq!(found(&["GOOGLE_API_KEY"]), Some(Secret::key("value of GOOGLE_API_KEY")));
        let both = found(&["GEMINI_API_KEY", "GOOGLE_API_KEY"]);
        assert_eq!(both, Some(Secret::key("value of GEMINI_API_KEY")));
        let mut own = ProviderConfig::new("mine", ProviderKind::Gemini);
        own.key_env = Some("MINE".to_owned());
        complete(&mut own, &|name: &str| (name == "GOOGLE_API_KEY").then(|| "x".to_owned()));
        assert_eq!(own.key(), None, "a variable that was named is the only one");
    }

    #[test]
    fn a_server_of_the_users_own_does_not_hide_the_provider_that_it_is_compatible_with() {
        let at_home = from_environment("openai", ProviderKind::OpenAi, &|name: &str| {
            (name == "OPENAI_API_KEY").then(|| "sk-openai".to_owned())
        });
        let at_home = at_home.unwrap();
        let mut local = ProviderConfig::new("local", ProviderKind::OpenAi);
        local.base_url = Some("http://localhost:2".to_owned());
        assert!(!is_same(&local, &at_home));
        assert!(is_same(&ProviderConfig::new("work", ProviderKind::OpenAiResponses), &at_home));
        local.name = "openai".to_owned();
        assert!(is_same(&local, &at_home), "one that has its name takes its place");
        let usual = from_environment("openai", ProviderKind::OpenAi, &set).unwrap();
        local.name = "other".to_owned();
        local.base_url = Some("http://localhost:1/v1/".to_owned());
        assert!(is_same(&local, &usual));
        assert!(!is_same(&ProviderConfig::new("claude", ProviderKind::Anthropic), &usual));
    }

    #[test]
    fn a_mistake_names_its_line_and_no_key() {
        let wrong =
            written("[[provider]]\nname = \"mine\"\nkind = \"openai\"\nkeyy = \"sk-123456\"\n").unwrap_err();
        assert!(wrong.contains("config.toml, line 4") && !wrong.contains("sk-123456"), "{wrong}");
    }
}
