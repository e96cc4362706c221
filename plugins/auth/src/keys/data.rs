//! Encryption of what is kept and must be read again.
