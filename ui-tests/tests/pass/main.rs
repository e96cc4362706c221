//! Declarations that compile: ones that are similar to the mistakes in `fail/`, and larger ones.
//!
//! Each file is a module with its own declarations. All of them are one test binary, because
//! linking takes most of the time. A file has a test if its declarations can be run.

// Each file declares the lints that it allows.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::pedantic,
    clippy::unwrap_used
)]

pub mod entity {
    mod computed;
    mod counters;
    mod enums_and_items;
    pub mod full;
    mod gates;
    mod migrations;
    mod most_fields;
    mod moved;
    mod neighbours;
    mod odd_declarations;
    mod permissions;
    mod policy;
    mod projection;
    mod relations;
    mod search;
    mod store_of_another_crate;
    mod types;
    mod visibility;
}

mod operation {
    mod aggregate;
    mod computed_aggregate;
    mod context;
    mod custom;
    mod deleted;
    mod derive;
    mod filters;
    mod increment;
    mod match_pins;
    mod modules_and_fragments;
    mod names;
    mod packages;
    mod path_to_entity;
    mod search;
    mod set;
    mod set_constraints;
    mod sorts;
    mod transition;
    mod upsert_permission;
    mod writes;
}

mod package {
    mod neighbours;
}

mod channel {
    mod neighbours;
}

mod sse {
    mod neighbours;
}

mod webhooks {
    mod neighbours;
}
