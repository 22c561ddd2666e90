//! What can go wrong between us and a model: the thing, the cause as the provider told it, and a way out. No text here
//! has a key in it.

use std::time::Duration;

/// Why there is no answer, or no more of it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The configuration makes no sense.
    #[error("{what}")]
    Config {
        /// Which part, and why.
        what: String,
    },
    /// There is no key, or the provider does not take it.
    #[error("provider {provider} {}", refused(*status, said))]
    Unauthorised {
        /// The provider.
        provider: String,
        /// The status of its answer; none if there is no key to send.
        status: Option<u16>,
        /// Where the key belongs.
        key_place: String,
        /// What it said.
        said: String,
    },
    /// The account is empty, or over its limit.
    #[error("provider {provider} refused the request for lack of credit: {said}")]
    NoCredit {
        /// The provider.
        provider: String,
        /// What it said.
        said: String,
    },
    /// Nobody here or there has such a model.
    #[error("model {model} was not found: {said}")]
    ModelUnknown {
        /// The model's full id.
        model: String,
        /// What was said.
        said: String,
    },
    /// The conversation is longer than the model can read.
    #[error("the conversation is too long for model {model}: {said}")]
    ContextTooLong {
        /// The model's full id.
        model: String,
        /// What the provider said.
        said: String,
    },
    /// Too much was asked in too short a time, and waiting did not help.
    #[error("provider {provider} limits the request rate: {said}")]
    RateLimited {
        /// The provider.
        provider: String,
        /// How often it was asked.
        attempts: u32,
        /// How long it wants us to wait, where it said so.
        wait: Option<Duration>,
        /// What it said.
        said: String,
    },
    /// The provider does not want this request.
    #[error("provider {provider} rejected the request ({status}): {said}")]
    Rejected {
        /// The provider.
        provider: String,
        /// The status of its answer.
        status: u16,
        /// What it said.
        said: String,
    },
    /// The provider failed, and asking again did not help.
    #[error("provider {provider} failed: {said}")]
    Server {
        /// The provider.
        provider: String,
        /// The status of its answer; none if it failed in the middle of one.
        status: Option<u16>,
        /// What it said.
        said: String,
    },
    /// Nobody answers at the address.
    #[error("provider {provider} cannot be reached at {url}: {cause}")]
    Unreachable {
        /// The provider.
        provider: String,
        /// Where it was looked for.
        url: String,
        /// Why that failed.
        cause: String,
    },
    /// The provider fell silent.
    #[error("provider {provider} sent nothing for {} seconds", waited.as_secs_f64())]
    Silent {
        /// The provider.
        provider: String,
        /// How long we waited.
        waited: Duration,
    },
    /// What came is not what the protocol says.
    #[error("provider {provider} sent an unreadable answer: {cause}")]
    Malformed {
        /// The provider.
        provider: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The answer ended in the middle.
    #[error("the answer of provider {provider} ended early: {cause}")]
    BrokenOff {
        /// The provider.
        provider: String,
        /// How it ended.
        cause: String,
    },
}

fn refused(status: Option<u16>, said: &str) -> String {
    match status {
        Some(status) => format!("rejected the API key ({status}): {said}"),
        None => format!("has no API key{}{said}", if said.is_empty() { "" } else { ": " }),
    }
}

impl ModelError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Config { .. } => "correct the configuration of the providers".to_owned(),
            Self::Unauthorised { key_place, .. } => {
                format!("put a valid key into {key_place} and log in again")
            }
            Self::NoCredit { .. } => "check the account at the provider, or choose another model".to_owned(),
            Self::ModelUnknown { .. } => {
                "choose a model of the list, or check its id and the provider's base URL".to_owned()
            }
            Self::ContextTooLong { .. } => {
                "shorten the conversation, or choose a model with a larger window".to_owned()
            }
            Self::RateLimited { wait: Some(wait), .. } => {
                format!("try again in {} seconds, or choose another model", wait.as_secs().max(1))
            }
            Self::RateLimited { wait: None, .. } => "wait a while, or choose another model".to_owned(),
            Self::Rejected { said, .. } if said.contains("/v1/responses") => {
                "set the provider's `kind` to openai-responses in the configuration, or choose another model"
                    .to_owned()
            }
            Self::Rejected { status: 300..=399, .. } => "correct the provider's base URL".to_owned(),
            Self::Rejected { .. } => {
                "the message says what is wrong; another model or thought level may work".to_owned()
            }
            Self::Server { .. } => "try again, or choose another model".to_owned(),
            Self::Unreachable { .. } => "check that it runs, the base URL and the network".to_owned(),
            Self::Silent { .. } => "try again; a local model may need longer to load".to_owned(),
            Self::Malformed { .. } => {
                "check that the provider's kind is the protocol that the server speaks".to_owned()
            }
            Self::BrokenOff { .. } => "send a prompt like \"go on\", and the model continues".to_owned(),
        }
    }
}
