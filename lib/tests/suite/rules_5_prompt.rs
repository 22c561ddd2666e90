//! Rules 5.1 to 5.13: prompts, one at a time and many at once, those that fail and those that are refused.

mod failing;
mod stage;
mod taken;
mod waiting;
