//! Section 8 of the rules: what each update means, live and in a replay, on all pairings.

#[path = "rules_8_updates/children.rs"]
mod children;
#[path = "rules_8_updates/messages.rs"]
mod messages;
#[path = "rules_8_updates/on_request.rs"]
mod on_request;
#[path = "rules_8_updates/samples.rs"]
mod samples;
#[path = "rules_8_updates/schema.rs"]
mod schema;
#[path = "rules_8_updates/stage.rs"]
mod stage;
#[path = "rules_8_updates/standing.rs"]
mod standing;
#[path = "rules_8_updates/terminals.rs"]
mod terminals;
#[path = "rules_8_updates/tool_calls.rs"]
mod tool_calls;
