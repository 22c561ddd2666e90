//! Section 8 of the rules: what each update means, live and in a replay, on all pairings.

mod children;
mod messages;
mod on_request;
mod samples;
mod schema;
mod stage;
mod standing;
mod terminals;
mod tool_calls;
