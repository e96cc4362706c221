//! Time-based codes of authenticator apps (RFC 6238).
