//! Classifies failed requests to providers: the error for the user, and whether a retry may help.

use std::time::Duration;

use genai::webc::StreamTimeout;
use serde_json::Value;

use super::config::{self, ProviderConfig};
use super::error::ModelError;
use super::raw_frames::{ConnectionFailure, StreamObservations};
use super::relay;

/// The maximum number of characters of a provider's message that are shown.
const SHOWN: usize = 400;

/// A failed request, classified.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) error: ModelError,
    pub(super) retry: Retry,
}

/// Whether a retry may help.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Retry {
    No,
    /// After the pause that the provider asked for, or the default one.
    After(Option<Duration>),
}

/// The request that a failure belongs to, for error messages.
pub(super) struct FaultContext<'a> {
    pub(super) provider: &'a ProviderConfig,
    pub(super) address: &'a str,
    /// The full id: `provider/model`.
    pub(super) model: &'a str,
    pub(super) attempts: u32,
    pub(super) idle: Duration,
}

impl FaultContext<'_> {
    /// The failure that the raw stream reported, which has more detail than the error of `genai`.
    pub(super) fn observed_fault(&self, observed: &StreamObservations) -> Option<Fault> {
        let unreadable = observed.unreadable.as_ref();
        unreadable
            .map(|event| self.malformed(&format!("an event is not JSON: {event}")))
            .or_else(|| observed.failure.as_ref().map(|failure| self.stream_error(failure)))
            .or_else(|| observed.broken.as_ref().map(|broken| self.broken(broken)))
    }

    fn broken(&self, broken: &ConnectionFailure) -> Fault {
        match broken {
            ConnectionFailure::Lost(cause) => self.unreachable(cause),
            ConnectionFailure::TooLong => {
                self.malformed(&format!("an event of more than {} MB", relay::LONGEST_EVENT / 1_000_000))
            }
        }
    }

    /// Classifies an error of `genai`.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "two dozen variants, each about a data format, and new versions add more"
    )]
    pub(super) fn sort(&self, error: &genai::Error) -> Fault {
        match error {
            genai::Error::HttpError { status, body, headers, .. } => {
                self.answered(status.as_u16(), body, pause(headers))
            }
            genai::Error::WebStream { error, .. } => self.carried(error.as_ref()),
            genai::Error::ChatResponse { body, .. } => self.stream_error(body),
            genai::Error::WebModelCall { webc_error, .. } => self.called(webc_error),
            genai::Error::StreamParse { serde_error, .. } => self.malformed(&serde_error.to_string()),
            other => self.malformed(&other.to_string()),
        }
    }

    /// Classifies an error in the transport of the answer.
    fn carried(&self, error: &(dyn std::error::Error + 'static)) -> Fault {
        if let Some(inner) = error.downcast_ref::<genai::Error>() {
            return self.sort(inner);
        }
        if error.downcast_ref::<StreamTimeout>().is_some() {
            let error = ModelError::Silent { provider: self.name(), waited: self.idle };
            return Fault { error, retry: Retry::No };
        }
        match error.downcast_ref::<reqwest::Error>() {
            Some(error) => self.unreachable(&root(error)),
            None => self.malformed(&error.to_string()),
        }
    }

    fn called(&self, error: &genai::webc::Error) -> Fault {
        use genai::webc::Error as Called;
        match error {
            Called::ResponseFailedStatus { status, body, headers } => {
                self.answered(status.as_u16(), body, pause(headers))
            }
            Called::Reqwest(error) => self.unreachable(&root(error)),
            Called::ResponseFailedNotJson { .. }
            | Called::ResponseFailedInvalidJson { .. }
            | Called::JsonValueExt(_) => self.malformed(&error.to_string()),
        }
    }

    pub(super) fn unreachable(&self, cause: &str) -> Fault {
        let url = config::shown(self.address);
        let error = ModelError::Unreachable { provider: self.name(), url, cause: self.clean(cause) };
        Fault { error, retry: Retry::After(None) }
    }

    pub(super) fn malformed(&self, cause: &str) -> Fault {
        let error = ModelError::Malformed { provider: self.name(), cause: self.clean(cause) };
        Fault { error, retry: Retry::No }
    }

    /// Classifies an error that was an event of the stream.
    fn stream_error(&self, body: &Value) -> Fault {
        let text = body.to_string();
        let code = ["code", "type", "status"].iter().find_map(|name| error_of(body)[*name].as_str());
        let status = match code.unwrap_or_default() {
            "rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED" => 429,
            "authentication_error" | "invalid_api_key" | "UNAUTHENTICATED" => 401,
            "invalid_request_error" | "INVALID_ARGUMENT" => 400,
            "not_found_error" | "NOT_FOUND" | "model_not_found" => 404,
            _ => return self.server(None, &text),
        };
        self.answered(status, &text, None)
    }

    /// Classifies an answer with an error status.
    fn answered(&self, status: u16, body: &str, wait: Option<Duration>) -> Fault {
        let said = self.said(body);
        let wait = wait.or_else(|| retry_delay(body));
        let fault = |error| Fault { error, retry: Retry::No };
        let low = body.to_ascii_lowercase();
        if too_long(status, &low) {
            return fault(ModelError::ContextTooLong { model: self.model.to_owned(), said });
        }
        if status == 402
            || ["insufficient_quota", "credit balance is too low"].iter().any(|it| low.contains(it))
        {
            return fault(ModelError::NoCredit { provider: self.name(), said });
        }
        match status {
            300..=399 => {
                let said = "it redirects to another address, and the API key is not sent there".to_owned();
                fault(ModelError::Rejected { provider: self.name(), status, said })
            }
            // Gemini answers 400 to an invalid key.
            401 | 403 => fault(self.unauthorised(status, said)),
            400 if low.contains("api_key_invalid") => fault(self.unauthorised(status, said)),
            404 => fault(ModelError::ModelUnknown { model: self.model.to_owned(), said }),
            400 if low.contains("model_not_found") => {
                fault(ModelError::ModelUnknown { model: self.model.to_owned(), said })
            }
            429 => {
                let provider = self.name();
                let error = ModelError::RateLimited { provider, attempts: self.attempts, wait, said };
                Fault { error, retry: Retry::After(wait) }
            }
            408 | 500..=599 => {
                let error = ModelError::Server { provider: self.name(), status: Some(status), said };
                Fault { error, retry: Retry::After(wait) }
            }
            _ => fault(ModelError::Rejected { provider: self.name(), status, said }),
        }
    }

    fn server(&self, status: Option<u16>, body: &str) -> Fault {
        if too_long(400, &body.to_ascii_lowercase()) {
            return self.answered(400, body, None);
        }
        let error = ModelError::Server { provider: self.name(), status, said: self.said(body) };
        Fault { error, retry: Retry::After(None) }
    }

    fn unauthorised(&self, status: u16, said: String) -> ModelError {
        let (provider, key_place) = (self.name(), self.provider.key_place());
        ModelError::Unauthorised { provider, status: Some(status), key_place, said }
    }

    fn name(&self) -> String {
        self.provider.name.clone()
    }

    /// The message in a provider's error, or the beginning of its body.
    fn said(&self, body: &str) -> String {
        let json: Value = serde_json::from_str(body).unwrap_or_default();
        let error = error_of(&json);
        let message = error["message"].as_str().or(error.as_str()).or(json["message"].as_str());
        let said = self.clean(message.unwrap_or(body));
        if said.is_empty() { "no reason given".to_owned() } else { said }
    }

    /// A text on one line, with a maximum length and without the key.
    fn clean(&self, text: &str) -> String {
        let text = match self.provider.key() {
            Some(key) => key.scrub(text),
            None => text.to_owned(),
        };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

/// The error object of a body: a member, the first item of a list, or the body itself.
fn error_of(body: &Value) -> &Value {
    let body = if body.is_array() { &body[0] } else { body };
    if body["error"].is_null() { body } else { &body["error"] }
}

/// Whether an error means that the request is too long. Each provider has its own message.
fn too_long(status: u16, low: &str) -> bool {
    const WORDS: [&str; 10] = [
        "context_length_exceeded",
        "maximum context length",
        "exceeds the context window",
        "exceed context limit",
        "exceed_context_size",
        "exceeds the available context size",
        "exceeds the context length",
        "prompt is too long",
        "exceeds the maximum number of tokens allowed",
        "too large for model",
    ];
    status == 413 || matches!(status, 400 | 422 | 500) && WORDS.iter().any(|words| low.contains(words))
}

/// The wait that a provider asks for in its headers.
fn pause(headers: &reqwest::header::HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The wait that Google asks for in the error, such as `37s`.
fn retry_delay(body: &str) -> Option<Duration> {
    let json: Value = serde_json::from_str(body).ok()?;
    let details = error_of(&json)["details"].as_array()?;
    let delay = details.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// The text of the innermost cause, which has the detail.
pub(super) fn root(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::config::{ProviderConfig, ProviderKind};
    use super::super::error::ModelError;
    use super::{Fault, FaultContext, Retry};
    use rethread::secret::Secret;

    fn fault(status: u16, body: &str) -> Fault {
        let mut provider = ProviderConfig::new("p", ProviderKind::OpenAi);
        provider.key = Some(Secret::new("sk-very-secret"));
        let idle = Duration::from_secs(1);
        let context =
            FaultContext { provider: &provider, address: "http://x/", model: "p/m", attempts: 1, idle };
        context.answered(status, body, None)
    }

    #[test]
    fn each_providers_message_for_too_long_is_recognised() {
        let bodies = [
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#,
            r#"{"error":{"message":"Your input exceeds the context window of this model."}}"#,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            r#"{"error":{"message":"input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"}}"#,
            r#"[{"error":{"code":400,"message":"The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."}}]"#,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
            r#"{"error":"the input length exceeds the context length"}"#,
        ];
        for body in bodies {
            let error = fault(400, body).error;
            assert!(matches!(error, ModelError::ContextTooLong { .. }), "{body}: {error}");
            assert!(!error.to_string().contains('{'), "the message is taken out: {error}");
        }
        assert!(matches!(fault(413, "").error, ModelError::ContextTooLong { .. }));
    }

    #[test]
    fn a_key_in_an_answer_is_hidden() {
        let fault = fault(401, r#"{"error":{"message":"bad key sk-very-secret"}}"#);
        assert_eq!(fault.error.to_string(), "provider p rejected the API key (401): bad key [secret]");
        assert!(fault.error.hint().contains("OPENAI_API_KEY"));
        assert!(!format!("{fault:?}").contains("very"));
    }

    #[test]
    fn a_wait_in_the_error_is_kept() {
        let body = r#"{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[
            {"@type":"type.googleapis.com/google.rpc.QuotaFailure"},
            {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37.5s"}]}}"#;
        assert_eq!(fault(429, body).retry, Retry::After(Some(Duration::from_millis(37_500))));
        assert_eq!(fault(429, r#"{"error":{"details":[{"retryDelay":"soon"}]}}"#).retry, Retry::After(None));
    }

    #[test]
    fn only_temporary_failures_are_retried() {
        let retry = |status, body| fault(status, body).retry != Retry::No;
        assert!(retry(429, "") && retry(500, "") && retry(529, "") && retry(408, ""));
        assert!(!retry(400, "") && !retry(404, "") && !retry(401, "") && !retry(422, ""));
        assert!(!retry(429, r#"{"error":{"code":"insufficient_quota"}}"#));
    }
}
