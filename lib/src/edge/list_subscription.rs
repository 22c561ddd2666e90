//! The requests that subscribe to changes of the list, the same in both versions: decodes and validates their parameters.

use super::client_request::ArchivedParam;
use super::params::{Params, absolute};
use crate::wire::RpcError;

/// The method that subscribes.
pub const SUBSCRIBE: &str = "_rethread/list/subscribe";
/// The method that ends a subscription.
pub const UNSUBSCRIBE: &str = "_rethread/list/unsubscribe";
/// The notification with changes.
pub const CHANGES: &str = "_rethread/list/changes";

/// The parameters of a subscription.
#[derive(Debug)]
pub struct ListSubscription {
    /// Only sessions with this working directory.
    pub cwd: Option<String>,
    /// Whether archived sessions are included.
    pub archived: ArchivedParam,
    /// The method of the notifications.
    pub method: &'static str,
}

impl ListSubscription {
    /// Reads the parameters; changes are sent with this method.
    pub fn read(params: &Params, method: &'static str) -> Result<Self, RpcError> {
        let cwd = params.optional_text("cwd")?;
        if let Some(cwd) = &cwd {
            absolute("cwd", cwd)?;
        }
        Ok(Self { cwd, archived: ArchivedParam::read(params)?, method })
    }
}
