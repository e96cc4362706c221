//! `incoming(Thread::PIN, by = container_id)`: an operation that a client's event runs.

use proc_macro2::Span;
use quote::ToTokens;
use syn::Ident;

use super::marks::{EventPath, Word};
use super::model::{Entity, Key, key};
use crate::diagnostics::Diagnostics;

/// An operation, resolved.
pub(super) struct Run<'a> {
    pub(super) event: &'a EventPath,
    pub(super) entity: Entity<'a>,
    pub(super) by: Key<'a>,
    /// Whether the payload has the `id` of the record. Otherwise the operation runs on the record
    /// of the room.
    pub(super) names_record: bool,
}

/// Resolves the operation. `None` after an error.
pub(super) fn run<'a>(
    event: &'a EventPath,
    by: Option<&'a Ident>,
    entity: Entity<'a>,
    own: Entity<'a>,
    collection: bool,
    d: &mut Diagnostics,
) -> Option<Run<'a>> {
    let Word::Operation(_) = event.word else {
        d.error(
            &event.at,
            format!("`{}` is not an operation", event.path_text()),
        )
        .help("the const of an operation: `incoming(Thread::PIN)`");
        return None;
    };
    let word = Ident::new("incoming", Span::call_site());
    let by = key(by, &word, entity, own, collection, d);
    Some(Run {
        event,
        entity,
        by,
        names_record: by.field().is_some() || collection,
    })
}

impl Run<'_> {
    /// `PIN`, for messages.
    pub(super) fn operation_name(&self) -> String {
        self.event.at.to_token_stream().to_string()
    }
}
