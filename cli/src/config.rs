//! The configuration: `config.toml`, and environment variables for model providers.

mod mistake;

use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::path::Path;

use rethread_assistant::model::{ProviderConfig, ProviderKind, Secret};
use serde::Deserialize;
use toml::Spanned;

use mistake::{FilePosition, explain};

use crate::environment::variable;

/// The contents of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The model providers.
    #[serde(default)]
    provider: Vec<Spanned<ProviderConfig>>,
    /// The store.
    #[serde(default)]
    store: StoreSection,
}

/// The section `[store]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoreSection {
    /// After how many days without a change sessions are deleted.
    keep_days: Option<NonZeroU32>,
}

/// Providers that an environment variable alone sets up, with their names.
const DEFAULT_VARIABLES: [(&str, ProviderKind); 4] = [
    ("openai", ProviderKind::OpenAi),
    ("anthropic", ProviderKind::Anthropic),
    ("gemini", ProviderKind::Gemini),
    ("ollama", ProviderKind::Ollama),
];

/// Returns the providers of the file, then those that are only in the environment.
pub(crate) fn providers(file: &Path) -> Result<Vec<ProviderConfig>, String> {
    let mut providers = read(file)?;
    for provider in &mut providers {
        complete(provider, &variable);
    }
    for (name, kind) in DEFAULT_VARIABLES {
        let found = from_environment(name, kind, &variable);
        let found = found.filter(|found| !providers.iter().any(|provider| is_same(provider, found)));
        providers.extend(found);
    }
    Ok(providers)
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

/// After how many days without a change sessions are deleted; nothing if they are kept.
pub(crate) fn keep_days(file: &Path) -> Result<Option<NonZeroU32>, String> {
    Ok(parse_file(file, &text_of(file)?)?.store.keep_days)
}

/// Reads the providers of the file; none if it does not exist.
fn read(file: &Path) -> Result<Vec<ProviderConfig>, String> {
    parse(file, &text_of(file)?)
}

/// The text of the file; empty if it does not exist.
fn text_of(file: &Path) -> Result<String, String> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(format!("{} cannot be read: {error}", file.display())),
    }
}

fn parse_file(file: &Path, text: &str) -> Result<File, String> {
    toml::from_str(text).map_err(|error| {
        explain(&FilePosition { file, text, at: error.span().map_or(0, |span| span.start) }, &error)
    })
}

fn parse(file: &Path, text: &str) -> Result<Vec<ProviderConfig>, String> {
    let position = |at| FilePosition { file, text, at };
    let read = parse_file(file, text)?;
    let mut providers: Vec<ProviderConfig> = Vec::new();
    for provider in read.provider {
        let at = provider.span().start;
        let provider = provider.into_inner();
        let wrong = |key: &str, what: &str| format!("{}: key `{key}`: {what}", position(at).of_key(key));
        provider.check().map_err(|bad| wrong(bad.key, &bad.what))?;
        if providers.iter().any(|earlier| earlier.name == provider.name) {
            return Err(wrong("name", &format!("two providers are called {}", provider.name)));
        }
        providers.push(provider);
    }
    Ok(providers)
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
    let named = read(file).unwrap_or_default().into_iter().filter_map(|provider| provider.key_env);
    usual.flatten().map(str::to_owned).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use rethread_assistant::model::Models;

    use super::*;

    fn written(text: &str) -> Result<Vec<ProviderConfig>, String> {
        parse(Path::new("/home/me/config.toml"), text)
    }

    #[test]
    fn providers_and_their_models_are_read() {
        let text = "[[provider]]\nname = \"mine\"\nkind = \"openai\"\nbase_url = \"http://localhost:1\"\n\
                    [[provider.models]]\nid = \"m\"\ncontext_window = 1000\n";
        let providers = written(text).unwrap();
        assert_eq!(providers[0].name, "mine");
        assert_eq!(providers[0].models[0].context_window, Some(1000));
    }

    #[test]
    fn old_sessions_are_kept_unless_a_number_of_days_is_set() {
        let days = |text: &str| {
            let read = parse_file(Path::new("/home/me/config.toml"), text)?;
            Ok::<_, String>(read.store.keep_days.map(NonZeroU32::get))
        };
        assert_eq!((days(""), days("[store]\nkeep_days = 90\n")), (Ok(None), Ok(Some(90))));
        for (text, expected) in [
            (
                "[store]\nkeep_days = 0\n",
                "line 2: key `keep_days`: invalid value integer, expected a nonzero u32",
            ),
            ("[store]\nkeep = 1\n", "line 2: unknown key `keep`: did you mean `keep_days`?"),
            ("[stor]\nkeep_days = 1\n", "line 1: unknown key `stor`: did you mean `[store]`?"),
        ] {
            assert_eq!(days(text), Err(format!("/home/me/config.toml, {expected}")), "{text}");
        }
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

    /// Every TOML block in the documentation, with its location.
    fn documented() -> Vec<(String, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files: Vec<_> =
            std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.push(root.join("README.md"));
        let mut blocks = Vec::new();
        for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "md")) {
            let text = std::fs::read_to_string(file).unwrap();
            let mut rest = text.as_str();
            while let Some((before, from)) = rest.split_once("```toml\n") {
                let (block, after) = from.split_once("```").unwrap();
                let line = text.len() - rest.len() + before.len();
                let line = text[..line].matches('\n').count() + 1;
                blocks.push((format!("{}, line {line}", file.display()), block.to_owned()));
                rest = after;
            }
            let indented = text.lines().any(|line| line.starts_with("    kind = "));
            assert!(!indented, "{}: configuration is written in blocks of ```toml", file.display());
        }
        blocks
    }

    #[test]
    fn every_configuration_of_the_documentation_works() {
        let blocks = documented();
        assert!(blocks.len() >= 2, "{blocks:?}");
        for (position, block) in blocks {
            let providers = written(&block).unwrap_or_else(|why| panic!("{position}: {why}"));
            assert!(!providers.is_empty() || !block.contains("[[provider]]"), "{position}");
            Models::new(providers).unwrap_or_else(|why| panic!("{position}: {why}"));
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_key_and_what_was_meant() {
        let provider = "[[provider]]\nname = \"mine\"\nkind = \"openai\"\n";
        let second = "[[provider]]\nname = \"other\"\nkind = \"openai\"\n";
        let cases = [
            ("keyy = \"sk-123456\"", "line 4: unknown key `keyy`: did you mean `key`?"),
            ("baseurl = \"http://x\"", "line 4: unknown key `baseurl`: did you mean `base_url`?"),
            (
                "[[provider.models]]\nid = \"m\"\nwindow = 5",
                "line 6: unknown key `window`: did you mean `context_window`?",
            ),
            ("[[models]]\nid = \"m\"", "line 4: unknown key `models`: did you mean `[[provider.models]]`?"),
            ("[[providers]]\nname = \"m\"", "line 4: unknown key `providers`: did you mean `[[provider]]`?"),
            (
                "[server]\nport = 1",
                "line 4: unknown key `server`: the keys of a provider go below a line `[[provider]]`",
            ),
            (
                "[[provider.models]]\nid = \"m\"\nefforts = [\"hihg\"]",
                "line 6: key `efforts`: unknown value `hihg`: did you mean `high`?",
            ),
            (
                "[[provider]]\nname = \"b\"\nkind = \"opnai\"",
                "line 6: key `kind`: unknown value `opnai`: did you mean `openai`?",
            ),
            ("[[provider]]\nname = \"b\"", "line 4: missing key `kind`"),
            (
                "[[provider.models]]\nid = \"m\"\ncontext_window = \"sk-123456\"",
                "line 6: key `context_window`: invalid type string, expected u64",
            ),
            ("key = sk-123456", "line 4: key `key`: "),
            (
                &format!("{second}base_url = \"ftp://x\""),
                "line 7: key `base_url`: the base URL of provider other is invalid",
            ),
            (
                &format!("{second}[[provider.models]]\nid = \" \""),
                "line 8: key `id`: a model of provider other has the id",
            ),
            (provider, "line 5: key `name`: two providers are called mine"),
            ("[[provider]]\nkind = \"openai\"\nname = \"a/b\"", "line 6: key `name`: provider name \"a/b\""),
        ];
        for (text, expected) in cases {
            let wrong = written(&format!("{provider}{text}\n")).unwrap_err();
            assert!(wrong.starts_with(&format!("/home/me/config.toml, {expected}")), "{text:?}: {wrong}");
            assert!(!wrong.contains("sk-123456"), "{wrong}");
        }
        let wrong = written("name = \"work\"\n").unwrap_err();
        assert!(
            wrong.ends_with(
                "line 1: unknown key `name`: the keys of a provider go below a line `[[provider]]`"
            ),
            "{wrong}"
        );
    }
}
