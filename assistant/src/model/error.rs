//! The errors of requests to models, each with the provider's message and a hint for the user. No text contains a key.

use std::time::Duration;

/// Why a request failed or its answer ended early.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The configuration is invalid.
    #[error("{what}")]
    Config {
        /// The invalid part and the reason.
        what: String,
    },
    /// The API key is missing or was rejected.
    #[error("provider {provider} {}", refused(*status, said))]
    Unauthorised {
        /// The name of the provider.
        provider: String,
        /// The HTTP status; none if there is no key to send.
        status: Option<u16>,
        /// Where the user has to put the key.
        key_place: String,
        /// The provider's message.
        said: String,
    },
    /// The account has no credit or is over its limit.
    #[error("provider {provider} refused the request for lack of credit: {said}")]
    NoCredit {
        /// The name of the provider.
        provider: String,
        /// The provider's message.
        said: String,
    },
    /// The model does not exist.
    #[error("model {model} was not found: {said}")]
    ModelUnknown {
        /// The model's full id.
        model: String,
        /// The message.
        said: String,
    },
    /// The conversation does not fit into the context window.
    #[error("the conversation is too long for model {model}: {said}")]
    ContextTooLong {
        /// The model's full id.
        model: String,
        /// The provider's message.
        said: String,
    },
    /// The rate limit was exceeded, also after the retries.
    #[error("provider {provider} limits the request rate: {said}")]
    RateLimited {
        /// The name of the provider.
        provider: String,
        /// The number of attempts.
        attempts: u32,
        /// The wait that the provider asked for.
        wait: Option<Duration>,
        /// The provider's message.
        said: String,
    },
    /// The provider rejected the request.
    #[error("provider {provider} rejected the request ({status}): {said}")]
    Rejected {
        /// The name of the provider.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's message.
        said: String,
    },
    /// The provider failed, also after the retries.
    #[error("provider {provider} failed: {said}")]
    Server {
        /// The name of the provider.
        provider: String,
        /// The HTTP status; none if it failed during an answer.
        status: Option<u16>,
        /// The provider's message.
        said: String,
    },
    /// No connection to the provider could be made.
    #[error("provider {provider} cannot be reached at {url}: {cause}")]
    Unreachable {
        /// The name of the provider.
        provider: String,
        /// The base URL.
        url: String,
        /// Why the connection failed.
        cause: String,
    },
    /// The provider sent nothing for too long.
    #[error("provider {provider} sent nothing for {} seconds", waited.as_secs_f64())]
    Silent {
        /// The name of the provider.
        provider: String,
        /// The time limit.
        waited: Duration,
    },
    /// The answer does not follow the protocol.
    #[error("provider {provider} sent an unreadable answer: {cause}")]
    Malformed {
        /// The name of the provider.
        provider: String,
        /// What is invalid.
        cause: String,
    },
    /// The answer ended before it was complete.
    #[error("the answer of provider {provider} ended early: {cause}")]
    Truncated {
        /// The name of the provider.
        provider: String,
        /// Why it ended.
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
    /// What the user can do.
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
            Self::Truncated { .. } => "send a prompt like \"go on\", and the model continues".to_owned(),
        }
    }
}
