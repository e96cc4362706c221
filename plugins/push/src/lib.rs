//! Web push: encrypted messages to browsers that are closed.
