//! Checks of declarations that name events: a channel, an endpoint of server-sent events, a
//! catalogue of webhooks.

use crate::entity::{Entity, EntityDesc, FieldDesc, Kind};
use crate::event::Change;
use crate::operation::{Method, OpSpec, Operation};
use crate::package::Sentence;

/// `A: OperationOf<B>` holds only if both are the same type.
///
/// The attribute sets the error message for an event that names an operation of another entity.
#[diagnostic::on_unimplemented(
    message = "this operation belongs to `{Self}`, not to `{E}`",
    label = "belongs to `{Self}`",
    note = "write the entity of the operation before its name: `{Self}`"
)]
pub trait OperationOf<E> {}

impl<E> OperationOf<E> for E {}

/// Returns the declaration of an operation. The compiler checks that it belongs to the entity.
pub const fn operation<E: Entity, F: Entity + OperationOf<E>>(
    operation: &Operation<F>,
) -> &'static OpSpec {
    operation.spec()
}

/// Fails to compile with `message`, except for an operation whose own errors are reported.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn refuse(operation: &OpSpec, message: &'static str) {
    assert!(is_poisoned(operation), "{}", message);
}

/// Whether the declaration of an operation does not compile.
pub const fn is_poisoned(operation: &OpSpec) -> bool {
    operation.name.is_empty()
}

/// Fails to compile if every route of an operation only reads. An operation without routes is
/// checked at start-up. `declared` is the name of the event in the declaration, for the message.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn assert_changes(operation: &OpSpec, declared: &str) {
    if is_poisoned(operation) || !only_reads(operation) {
        return;
    }
    let mut text = Sentence::new();
    text.push("linchpin: `");
    text.push(declared);
    text.push("` is not an event, because the operation only reads\nhelp: name an operation that changes records");
    text.stop()
}

const fn only_reads(operation: &OpSpec) -> bool {
    let (mut part, mut has_routes) = (0, !operation.routes.is_empty());
    while part < operation.parts.len() {
        has_routes = true;
        if !all_get(operation.parts[part]) {
            return false;
        }
        part += 1;
    }
    has_routes && all_get(operation)
}

const fn all_get(operation: &OpSpec) -> bool {
    let mut at = 0;
    while at < operation.routes.len() {
        if !matches!(operation.routes[at].method, Method::Get) {
            return false;
        }
        at += 1;
    }
    true
}

/// Fails to compile if the payload of a generated route's event has a field without a schema. The
/// events of operations are checked at start-up. `declared` is the name of the event in the
/// declaration, for the message.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn assert_schema(entity: &EntityDesc, change: Change, declared: &str) {
    let policy = match change {
        Change::Created => &entity.routes[0],
        Change::Updated => &entity.routes[3],
        Change::Deleted => &entity.routes[4],
        Change::Operation(_) => return,
    };
    let event = match policy.event {
        None => entity.defaults.event,
        own => own,
    };
    let payload = match event {
        Some(event) => event.payload,
        None => None,
    };
    let mut at = 0;
    while at < entity.fields.len() && !entity.poisoned {
        let field = &entity.fields[at];
        let shows = match payload {
            Some(names) => among(names, field.name),
            None => true,
        };
        if shows && field.readable() && is_untyped(field) {
            let mut text = Sentence::new();
            text.push("linchpin: event `");
            text.push(declared);
            text.push("` has no schema: `json` field `");
            text.push(field.name);
            text.push("` needs a type\nhelp: use `Json<T>` with a struct `T`, add `private`, or leave the field out of `event(payload(..))`");
            text.stop()
        }
        at += 1;
    }
}

/// Whether a field holds any JSON, so that no schema describes it.
pub const fn is_untyped(field: &FieldDesc) -> bool {
    matches!(field.kind, Kind::Json) && field.reads.is_none()
}

const fn among(names: &[&str], name: &str) -> bool {
    let mut at = 0;
    while at < names.len() {
        if super::same(names[at], name) {
            return true;
        }
        at += 1;
    }
    false
}
