//! The in-memory store: the model of all others.
