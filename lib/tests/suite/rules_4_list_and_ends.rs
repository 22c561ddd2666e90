//! Rules 4.1 to 4.26: listing, deleting, archiving, status, title, fork and close.

mod about_one;
mod ends;
mod list;
mod stage;
