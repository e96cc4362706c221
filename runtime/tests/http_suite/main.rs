//! HTTP, from the outside: requests into the service of an application, answers out of it.
#![allow(clippy::unwrap_used, clippy::format_push_string, missing_docs, unreachable_pub)] // tests

mod codes;
mod crud;
mod extra;
mod fixture;
mod layer;
mod list;
mod operations;
mod overrides;
mod policy;
mod socket;
mod startup;
