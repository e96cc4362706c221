//! Text messages: the trait of whoever sends them.
