//! The ring of keys that sign and verify access tokens.
