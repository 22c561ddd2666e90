//! The catalog of well-known models: windows, prices and thought levels that their providers publish. Uncertain numbers
//! are left out, such as temporary prices. The user's configuration overrides it.

use super::config::{Effort, ModelConfig, Price, ProviderConfig, ProviderKind};

use Effort::{High, Low, Max, Medium, Off, XHigh};

/// The maximum number of tools in a request: OpenAI and Google reject more.
const MOST_TOOLS: usize = 128;

/// A model of the catalog.
pub(super) struct CatalogModel {
    kinds: &'static [ProviderKind],
    id: &'static str,
    name: &'static str,
    window: u64,
    output: u32,
    price: Option<Price>,
    efforts: &'static [Effort],
    takes_temperature: bool,
    /// Thinks by default, and shows its thoughts only on request.
    adaptive: bool,
}

const CLAUDE: &[ProviderKind] = &[ProviderKind::Anthropic];
const GPT: &[ProviderKind] = &[ProviderKind::OpenAiResponses, ProviderKind::OpenAi];
const GEMINI: &[ProviderKind] = &[ProviderKind::Gemini];
const UP: &[Effort] = &[Low, Medium, High, XHigh, Max];
const OFF_AND_UP: &[Effort] = &[Off, Low, Medium, High, XHigh, Max];

const fn claude(id: &'static str, name: &'static str, price: Option<Price>) -> CatalogModel {
    CatalogModel {
        kinds: CLAUDE,
        id,
        name,
        window: 1_000_000,
        output: 128_000,
        price,
        efforts: UP,
        takes_temperature: false,
        adaptive: true,
    }
}

const fn gpt(
    id: &'static str,
    name: &'static str,
    efforts: &'static [Effort],
    price: Option<Price>,
) -> CatalogModel {
    CatalogModel {
        kinds: GPT,
        id,
        name,
        window: 1_050_000,
        output: 128_000,
        price,
        efforts,
        takes_temperature: false,
        adaptive: false,
    }
}

const fn gemini(id: &'static str, name: &'static str) -> CatalogModel {
    CatalogModel {
        kinds: GEMINI,
        id,
        name,
        window: 1_048_576,
        output: 65_536,
        price: None,
        efforts: &[Low, Medium, High],
        takes_temperature: true,
        adaptive: false,
    }
}

const fn price(input: f64, output: f64, cached: Option<f64>, cache_write: Option<f64>) -> Option<Price> {
    Some(Price { input, output, cached, cache_write, up_to: None })
}

const TABLE: &[CatalogModel] = &[
    claude("claude-opus-5-5", "Claude Opus 5.5", price(4.0, 20.0, Some(0.2), Some(5.0))),
    claude("claude-sonnet-5-5", "Claude Sonnet 5.5", price(2.0, 10.0, None, None)),
    claude("claude-haiku-5-5", "Claude Haiku 5.5", None),
    claude("claude-fable-5-1", "Claude Fable 5.1", price(10.0, 50.0, None, None)),
    CatalogModel {
        efforts: OFF_AND_UP,
        ..claude("claude-opus-5", "Claude Opus 5", price(5.0, 25.0, Some(0.5), Some(6.25)))
    },
    CatalogModel {
        efforts: OFF_AND_UP,
        ..claude("claude-sonnet-5", "Claude Sonnet 5", price(2.0, 10.0, None, None))
    },
    CatalogModel {
        window: 200_000,
        output: 64_000,
        efforts: &[Off, Low, Medium, High],
        takes_temperature: true,
        adaptive: false,
        ..claude("claude-haiku-4-5", "Claude Haiku 4.5", price(1.0, 5.0, Some(0.1), Some(1.25)))
    },
    gpt(
        "gpt-6-sol",
        "GPT-6 Sol",
        OFF_AND_UP,
        Some(Price {
            input: 2.0,
            output: 10.0,
            cached: Some(0.2),
            cache_write: Some(2.5),
            up_to: Some(272_000),
        }),
    ),
    gpt("gpt-5.6-sol", "GPT-5.6 Sol", OFF_AND_UP, None),
    gemini("gemini-3.1-pro-preview", "Gemini 3.1 Pro"),
];

/// The properties of a model, from the configuration or else from the catalog.
#[derive(Clone, Debug)]
pub(super) struct ModelFacts {
    pub(super) name: String,
    pub(super) window: Option<u64>,
    /// The maximum length of an answer that the user configured.
    pub(super) wanted_output: Option<u32>,
    /// The maximum length of an answer that the provider allows.
    pub(super) most_output: Option<u32>,
    pub(super) price: Option<Price>,
    pub(super) efforts: Vec<Effort>,
    pub(super) takes_temperature: bool,
    pub(super) takes_tools: bool,
    pub(super) takes_images: bool,
    pub(super) max_tools: usize,
    pub(super) shows_thoughts: bool,
    pub(super) adaptive: bool,
}

/// The ids of the catalog's models of this kind of provider.
pub(super) fn ids(kind: ProviderKind) -> impl Iterator<Item = &'static str> {
    TABLE.iter().filter(move |known| known.kinds.contains(&kind)).map(|known| known.id)
}

/// The properties of a provider's model.
pub(super) fn facts(provider: &ProviderConfig, id: &str) -> ModelFacts {
    let known = TABLE.iter().find(|known| known.kinds.contains(&provider.kind) && known.is(id));
    let said = provider.models.iter().find(|model| model.id == id).cloned();
    let said = said.unwrap_or_else(|| ModelConfig::new(id));
    ModelFacts {
        name: said.name.or(known.map(|known| known.name.to_owned())).unwrap_or_else(|| id.to_owned()),
        window: said.context_window.or(known.map(|known| known.window)),
        wanted_output: said.max_output,
        most_output: said.max_output.or(known.map(|known| known.output)),
        // A server with its own base URL has its own prices.
        price: said.price.or(known.filter(|_| provider.base_url.is_none()).and_then(|known| known.price)),
        efforts: said.efforts.or(known.map(|known| known.efforts.to_vec())).unwrap_or_default(),
        takes_temperature: said
            .takes_temperature
            .or(known.map(|known| known.takes_temperature))
            .unwrap_or(true),
        takes_tools: true,
        takes_images: true,
        max_tools: said.max_tools.unwrap_or(MOST_TOOLS),
        shows_thoughts: true,
        adaptive: known.is_some_and(|known| known.adaptive),
    }
}

impl CatalogModel {
    /// Whether this is its id or the id of one of its dated versions.
    fn is(&self, id: &str) -> bool {
        let dated = |rest: &str| rest.len() >= 8 && rest.bytes().all(|c| c.is_ascii_digit() || c == b'-');
        match id.strip_prefix(self.id) {
            Some("") => true,
            Some(rest) => rest.strip_prefix('-').is_some_and(dated),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{ModelConfig, Price, ProviderConfig, ProviderKind};
    use super::facts;

    #[test]
    fn a_dated_version_is_found_and_similar_ids_are_not() {
        let provider = ProviderConfig::new("a", ProviderKind::Anthropic);
        assert_eq!(facts(&provider, "claude-haiku-4-5-20251001").window, Some(200_000));
        assert_eq!(facts(&provider, "claude-opus-5-5").price.unwrap().input, 4.0);
        assert_eq!(facts(&provider, "claude-opus-5").price.unwrap().input, 5.0);
        assert_eq!(facts(&provider, "claude-opus-5-6").price, None);
    }

    #[test]
    fn the_configuration_wins_and_other_servers_have_no_catalog_prices() {
        let mut provider = ProviderConfig::new("a", ProviderKind::Anthropic);
        provider.base_url = Some("http://127.0.0.1:1".to_owned());
        assert_eq!(facts(&provider, "claude-opus-5").price, None);
        let price = Price { input: 1.0, output: 2.0, cached: None, cache_write: None, up_to: None };
        let model =
            ModelConfig { price: Some(price), context_window: Some(7), ..ModelConfig::new("claude-opus-5") };
        provider.models.push(model);
        let facts = facts(&provider, "claude-opus-5");
        assert_eq!((facts.price, facts.window, facts.name.as_str()), (Some(price), Some(7), "Claude Opus 5"));
    }
}
