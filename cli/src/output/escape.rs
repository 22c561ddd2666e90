//! Makes text safe to print: characters that control a terminal or reorder a line become escapes such as `\u{1b}`.

pub(crate) use rethread::visible::{is_hostile, visible, visible_lines};
