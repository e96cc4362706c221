//! What identifies an account, in one spelling; and the address a client calls from.
