//! Rules 5.1 to 5.13: prompts, one at a time and many at once, those that fail and those that are refused.

#[path = "rules_5_prompt/failing.rs"]
mod failing;
#[path = "rules_5_prompt/stage.rs"]
mod stage;
#[path = "rules_5_prompt/taken.rs"]
mod taken;
#[path = "rules_5_prompt/waiting.rs"]
mod waiting;
