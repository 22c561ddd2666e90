//! Adds the environment to the model providers of the file: keys, addresses, and providers that only the environment has.

use std::path::Path;

use rethread_assistant::model::{ProviderConfig, ProviderKind, Secret};

use super::read;
use crate::environment::variable;

/// Providers that an environment variable alone sets up, with their names.
const DEFAULT_VARIABLES: [(&str, ProviderKind); 4] = [
    ("openai", ProviderKind::OpenAi),
    ("anthropic", ProviderKind::Anthropic),
    ("gemini", ProviderKind::Gemini),
    ("ollama", ProviderKind::Ollama),
];

/// Completes the providers of the file from the environment, and adds those that are only there.
pub(crate) fn with_environment(providers: Vec<ProviderConfig>) -> Vec<ProviderConfig> {
    with_variables(providers, &variable)
}

/// The same with other variables than those of this process.
pub(crate) fn with_variables(
    mut providers: Vec<ProviderConfig>,
    variable: &impl Fn(&str) -> Option<String>,
) -> Vec<ProviderConfig> {
    for provider in &mut providers {
        complete(provider, variable);
    }
    for (name, kind) in DEFAULT_VARIABLES {
        let found = from_environment(name, kind, variable);
        let found = found.filter(|found| !providers.iter().any(|provider| is_same(provider, found)));
        providers.extend(found);
    }
    providers
}

/// Returns whether both are the same service. A user's own server does not replace the service that it is compatible
/// with.
fn is_same(written: &ProviderConfig, found: &ProviderConfig) -> bool {
    let position = |provider: &ProviderConfig| {
        provider.base_url.as_deref().map(|url| url.trim().trim_end_matches('/').to_owned())
    };
    let alike = written.kind.usual_url_env() == found.kind.usual_url_env();
    written.name == found.name || alike && position(written) == position(found)
}

/// Adds values from the environment to a provider of the file.
fn complete(provider: &mut ProviderConfig, variable: &impl Fn(&str) -> Option<String>) {
    let named = DEFAULT_VARIABLES.iter().any(|(name, kind)| provider.name == *name && provider.kind == *kind);
    if named {
        // An address and a key in variables that belong together.
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

/// Returns a provider that is set up by variables alone.
fn from_environment(
    name: &str,
    kind: ProviderKind,
    variable: &impl Fn(&str) -> Option<String>,
) -> Option<ProviderConfig> {
    let mut provider = ProviderConfig::new(name, kind);
    complete(&mut provider, variable);
    (provider.key().is_some() || provider.base_url.is_some()).then_some(provider)
}

/// The variables that may contain the key of a provider: those named in the file, and the default ones.
pub(crate) fn key_variables(file: &Path) -> Vec<String> {
    let usual = ProviderKind::ALL.into_iter().flat_map(|kind| [kind.usual_key_env(), kind.other_key_env()]);
    // An unreadable file is reported when it is needed.
    let named = read(file).unwrap_or_default().providers.into_iter().filter_map(|provider| provider.key_env);
    usual.flatten().map(str::to_owned).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(elsewhere.key(), None, "the OpenAI key is not sent to another server");
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
        assert!(is_same(&local, &at_home), "a provider with the same name replaces it");
        let usual = from_environment("openai", ProviderKind::OpenAi, &set).unwrap();
        local.name = "other".to_owned();
        local.base_url = Some("http://localhost:1/v1/".to_owned());
        assert!(is_same(&local, &usual));
        assert!(!is_same(&ProviderConfig::new("claude", ProviderKind::Anthropic), &usual));
    }
}
