//! Merges what is said of one thing, one update after the other, into what is true of it.
