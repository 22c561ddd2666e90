//! The request `_rethread/search`, the same in both versions: decodes and validates its parameters.

use rethread_core::search::TextQuery;
use serde_json::Value;

use super::params::{Params, absolute};
use crate::wire::RpcError;

/// The method.
pub const SEARCH: &str = "_rethread/search";

/// The number of hits if the client does not say how many it wants.
const DEFAULT_LIMIT: usize = 20;

/// The parameters of a search.
#[derive(Debug)]
pub struct SearchParams {
    /// What to search for.
    pub text: TextQuery,
    /// Only sessions with this working directory.
    pub cwd: Option<String>,
    /// Only sessions of agents whose name contains this text.
    pub agent: Option<String>,
    /// Only messages since then, as the client wrote it.
    pub since: Option<String>,
    /// The maximum number of hits.
    pub limit: usize,
    /// The cursor that the previous page ended with.
    pub cursor: Option<String>,
}

impl SearchParams {
    /// Reads the parameters.
    pub fn read(params: &Params) -> Result<Self, RpcError> {
        let query = params.text("query")?;
        let text = TextQuery::parse(&query).map_err(|error| {
            RpcError::field("query", &shortened(&query), "words, \"phrases\" or prefix*")
                .hint(error.to_string())
        })?;
        let cwd = params.optional_text("cwd")?;
        if let Some(cwd) = &cwd {
            absolute("cwd", cwd)?;
        }
        let limit = match params.get("limit").filter(|limit| !limit.is_null()) {
            None => DEFAULT_LIMIT,
            Some(limit) => match limit.read::<u64>() {
                Ok(limit) if limit > 0 => usize::try_from(limit).unwrap_or(usize::MAX),
                Ok(_) | Err(_) => return Err(params.wrong("limit", "a number from 1 on")),
            },
        };
        Ok(Self {
            text,
            cwd,
            agent: params.optional_text("agent")?,
            since: params.optional_text("since")?,
            limit,
            cursor: params.optional_text("cursor")?,
        })
    }
}

/// The beginning of a text, for an error message.
fn shortened(text: &str) -> Value {
    Value::String(text.chars().take(100).collect())
}
