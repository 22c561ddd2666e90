//! The line-based JSON-RPC layer: reading and writing lines, the message envelope, errors. Independent of methods.

mod envelope;
mod error;
mod line_template;
mod lines;
mod out;

pub use envelope::{Id, IdKind, Malformed, RpcMessage, parse};
pub use error::{RpcError, code, with_causes};
pub use line_template::LineTemplate;
pub use lines::{Line, LineReader};
pub use out::Out;
