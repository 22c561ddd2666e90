//! Rules 4.1 to 4.26: listing, deleting, archiving, status, title, fork and close.

#[path = "rules_4_list_and_ends/about_one.rs"]
mod about_one;
#[path = "rules_4_list_and_ends/ends.rs"]
mod ends;
#[path = "rules_4_list_and_ends/list.rs"]
mod list;
#[path = "rules_4_list_and_ends/stage.rs"]
mod stage;
