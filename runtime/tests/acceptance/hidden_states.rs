//! Transitions of fields that clients may not read: a refusal does not reveal the stored value.

#![allow(missing_docs)] // test entities

use linchpin::prelude::*;
use serde_json::json;

use crate::cases;
use crate::server::Server;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Stage {
    Sealed,
    Opened,
}

/// A letter with states that only some callers may read.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Letter {
    #[field(primary)]
    pub id: String,
    #[field(default = Stage::Sealed)]
    pub shown: Stage,
    #[field(private, default = Stage::Sealed)]
    pub unknown: Stage,
    #[field(sensitive, default = Stage::Sealed)]
    pub delicate: Stage,
}

#[operation(kind = "transition", field = shown, from = Stage::Sealed, to = Stage::Opened)]
pub const SHOW: Operation<Letter>;

#[operation(kind = "transition", field = unknown, from = Stage::Sealed, to = Stage::Opened)]
pub const UNSEAL: Operation<Letter>;

#[operation(kind = "transition", field = delicate, from = Stage::Sealed, to = Stage::Opened)]
pub const READ: Operation<Letter>;

pub static LETTERS: Package = package!(
    name = "letters",
    entities = [entity(Letter, [SHOW, UNSEAL, READ])]
);

cases!(&crate::hidden_states::LETTERS => a_refused_transition_does_not_reveal_the_state);

async fn a_refused_transition_does_not_reveal_the_state(s: &Server) {
    assert_eq!(s.post("/letters", json!({"id": "a"})).await.status, 201);
    for (operation, shows_state) in [("show", true), ("unseal", false), ("read", false)] {
        let path = format!("/letters/a/{operation}");
        assert_eq!(s.post(&path, json!({})).await.status, 200, "{operation}");
        let refused = s.post(&path, json!({})).await;
        assert_eq!(refused.code(), (400, "invalid_transition"), "{operation}");
        let text = refused.json().to_string().to_lowercase();
        let secrets = ["opened", "sealed", "unknown", "current", "expected"];
        assert_eq!(
            secrets.iter().any(|secret| text.contains(secret)),
            shows_state,
            "{operation}: {text}"
        );
    }
}
