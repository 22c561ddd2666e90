//! `rethread models`: the models of the built-in assistant, by provider.

use std::time::Duration;

use clap::Args;
use rethread_assistant::model::{Model, Models, ProviderConfig, ProviderLimits};
use serde::Serialize;

use crate::config::{self, without_password};
use crate::failure::Failure;
use crate::output::escape::visible;
use crate::output::json::json_document;
use crate::output::paragraph::paragraph;
use crate::output::stream::print;
use crate::output::table::{Cell, Column, Cut, table};
use crate::output::target::{OutputTarget, Paint};
use crate::paths::Paths;

/// How long a provider may take to list its models.
const LIST_LIMIT: Duration = Duration::from_secs(3);

/// Options of `models`.
#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    /// Do not ask providers for their models; list only those that the configuration names and those that rethread knows.
    #[arg(long)]
    offline: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The providers of the assistant.
#[derive(Debug, Serialize)]
pub(crate) struct ModelList {
    /// The model that new sessions begin with, if it is configured.
    pub(crate) default: Option<String>,
    /// The providers in the order of the configuration.
    pub(crate) providers: Vec<ListedProvider>,
}

/// A provider and its models.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedProvider {
    /// The name.
    pub(crate) name: String,
    kind: &'static str,
    /// The address, if it is not the default one.
    base_url: Option<String>,
    /// Whether it has its key.
    pub(crate) key: KeyState,
    /// Where the key is, or where it has to be.
    pub(crate) key_place: String,
    /// Why it did not list its models.
    pub(crate) error: Option<String>,
    pub(crate) models: Vec<ListedModel>,
}

/// Whether a provider has its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeyState {
    /// It has one.
    Present,
    /// It needs one and has none.
    Missing,
    /// It has none and perhaps needs none.
    Unset,
}

/// A model.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedModel {
    id: String,
    name: String,
    context_window: Option<u64>,
    /// US dollars for a million tokens.
    input_price: Option<f64>,
    output_price: Option<f64>,
    default: bool,
}

/// Lists the models.
pub(crate) fn run(args: &ModelsArgs) -> Result<(), Failure> {
    let file = Paths::from_environment()?.config();
    let config = config::read(&file)?;
    let providers = config::with_environment(config.providers);
    let providers = providers.into_iter().map(|p| ProviderConfig { file: Some(file.clone()), ..p }).collect();
    let limits = ProviderLimits { listing: LIST_LIMIT, connect: LIST_LIMIT, ..ProviderLimits::default() };
    let models =
        Models::new(providers).map_err(|error| Failure::plain(&error.to_string()))?.with_limits(limits);
    config.assistant.model.iter().for_each(|id| models.keep(id));
    if !args.offline {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(models.discover());
    }
    let list = list_models(&models, config.assistant.model);
    let text = if args.json { json_document(&list) } else { text(&list, &file.display().to_string()) };
    print(&text)
}

/// What is known of the models.
pub(crate) fn list_models(models: &Models, default: Option<String>) -> ModelList {
    let (known, failures) = (models.offer(default.as_deref()), models.failures());
    let provider = |provider: &ProviderConfig| {
        let reason = |failure: &String| {
            // The address, which ends with a slash, is shown already.
            let (_, why) = failure.strip_prefix(&provider.name)?.strip_prefix(" at ")?.split_once("/: ")?;
            Some(why.to_owned())
        };
        let of_provider = known.iter().filter(|model| model.provider == provider.name);
        ListedProvider {
            name: provider.name.clone(),
            kind: provider.kind.name(),
            base_url: provider.base_url.as_deref().map(without_password),
            key: key_state(provider),
            key_place: provider.key_place(),
            error: failures.iter().find_map(reason),
            models: of_provider.map(|model| listed(model, default.as_deref())).collect(),
        }
    };
    ModelList { providers: models.providers().map(provider).collect(), default }
}

/// Whether a provider has its key.
pub(crate) fn key_state(provider: &ProviderConfig) -> KeyState {
    match provider.key() {
        Some(_) => KeyState::Present,
        None if provider.lacks_key() => KeyState::Missing,
        None => KeyState::Unset,
    }
}

fn listed(model: &Model, default: Option<&str>) -> ListedModel {
    ListedModel {
        id: model.id.clone(),
        name: model.name.clone(),
        context_window: model.context_window,
        input_price: model.price.map(|price| price.input),
        output_price: model.price.map(|price| price.output),
        default: default == Some(model.id.as_str()),
    }
}

fn text(list: &ModelList, file: &str) -> String {
    let target = OutputTarget::stdout();
    if list.providers.is_empty() {
        let text = format!(
            "No model provider is configured. Set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or OLLAMA_HOST, or add \
             a [[provider]] to {}.",
            visible(file)
        );
        return paragraph(target, &text, 0) + "\n";
    }
    let parts = list.providers.iter().map(|provider| provider_text(target, provider));
    parts.collect::<Vec<_>>().join("\n")
}

fn provider_text(target: OutputTarget, provider: &ListedProvider) -> String {
    let place = provider.base_url.as_ref().map_or_else(String::new, |url| format!(" at {}", visible(url)));
    let (paint, key) = match provider.key {
        KeyState::Present => (Paint::Green, "key present".to_owned()),
        KeyState::Missing => (Paint::Red, format!("no key: set {}", visible(&provider.key_place))),
        KeyState::Unset => (Paint::Dim, "no key".to_owned()),
    };
    let name = target.paint(Paint::Bold, &visible(&provider.name));
    let head = format!("{name} ({}{place}): {}\n", provider.kind, target.paint(paint, &key));
    let error =
        provider.error.as_ref().map(|error| target.paint(Paint::Yellow, &format!("  {}\n", visible(error))));
    let columns = [
        Column { header: "  model", cut: Cut::End(24) },
        Column { header: "", cut: Cut::Nothing },
        Column { header: "window", cut: Cut::Number },
        Column { header: "$/M in", cut: Cut::Number },
        Column { header: "$/M out", cut: Cut::Number },
        Column { header: "name", cut: Cut::End(12) },
    ];
    let rows: Vec<Vec<Cell>> = provider.models.iter().map(row).collect();
    let models =
        if rows.is_empty() { "  no models known\n".to_owned() } else { table(target, &columns, &rows) };
    head + &error.unwrap_or_default() + &models
}

fn row(model: &ListedModel) -> Vec<Cell> {
    let price = |price: Option<f64>| price.map_or_else(String::new, |price| format!("{price:.2}"));
    vec![
        Cell::painted(&format!("  {}", model.id), Paint::Cyan),
        Cell::painted(if model.default { "default" } else { "" }, Paint::Green),
        Cell::new(&model.context_window.map_or_else(String::new, |window| window.to_string())),
        Cell::painted(&price(model.input_price), Paint::Dim),
        Cell::painted(&price(model.output_price), Paint::Dim),
        Cell::painted(&model.name, Paint::Dim),
    ]
}
