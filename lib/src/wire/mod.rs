//! The line-JSON layer: lines in and out, the JSON-RPC envelope, its errors. Knows no method.

mod envelope;
mod error;
mod lines;
mod out;

pub use envelope::{Id, IdKind, Malformed, Message, parse};
pub use error::{RpcError, code, with_causes};
pub use lines::{Line, LineReader};
pub use out::Out;
