//! Const assertions in macro expansions. They check types and operations, of which the macro knows
//! only the names.

use linchpin::entity::{EntityDesc, FieldType, Kind};
use linchpin_core::__private::is_poisoned;
use linchpin_core::operation::{OpSpec, Place};
use linchpin_core::package::Sentence;
use linchpin_vocabulary::event::{self, Flaw};

use super::{Change, ChannelDesc, Mark, On, VariantDesc};

/// Fails to compile if the event name of an operation is invalid, or if another variant already
/// has it.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn assert_name(channel: &ChannelDesc, variant: usize, on: usize, change: usize) {
    let Mark::On(all) = channel.variants[variant].mark else {
        return;
    };
    let Some(name) = Name::of(&all[on], change) else {
        return;
    };
    if let Err(flaw) = event::check(name.text()) {
        let mut text = Sentence::new();
        text.push("linchpin: event name `");
        text.push(name.text());
        text.push(match flaw {
            Flaw::Reserved => "` is reserved",
            Flaw::Length => "` is longer than 128 bytes",
            Flaw::Grammar => "` is not a valid event name",
        });
        text.push("\nhelp: set another name: `event = \"..\"`");
        text.stop()
    }
    let mut other = 0;
    while other < channel.variants.len() {
        if other != variant && has_name(&channel.variants[other], name.text()) {
            let mut text = Sentence::new();
            text.push("linchpin: event name `");
            text.push(name.text());
            text.push("` is already used by variant `");
            text.push(channel.variants[other].ident);
            text.push("`\nhelp: set another name: `event = \"..\"`");
            text.stop()
        }
        other += 1;
    }
}

/// Whether a variant has this name on the wire.
const fn has_name(variant: &VariantDesc, name: &str) -> bool {
    if same(variant.name, name) || contains(variant.alias, name) {
        return true;
    }
    let Mark::On(all) = variant.mark else {
        return false;
    };
    let mut at = 0;
    while at < all.len() {
        if contains(all[at].alias, name) {
            return true;
        }
        match all[at].name {
            Some(own) if same(own, name) => return true,
            Some(_) => {}
            None => {
                let mut change = 0;
                while change < all[at].changes.len() {
                    if let Some(own) = Name::of(&all[at], change)
                        && same(own.text(), name)
                    {
                        return true;
                    }
                    change += 1;
                }
            }
        }
        at += 1;
    }
    false
}

const fn contains(names: &[&str], name: &str) -> bool {
    let mut at = 0;
    while at < names.len() {
        if same(names[at], name) {
            return true;
        }
        at += 1;
    }
    false
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The name of an event, built without allocation. A name that is longer than the buffer is cut to
/// 192 bytes. It still exceeds the limit of 128 bytes and is refused.
struct Name {
    bytes: [u8; 192],
    len: usize,
}

impl Name {
    /// Returns `None` for the methods of a collection, whose names are checked at start-up, and for
    /// an operation whose declaration has an error.
    const fn of(on: &On, change: usize) -> Option<Self> {
        // The routes are create, list, get, update and delete.
        let (policy, last) = match on.changes[change] {
            Change::Created => (&on.entity.routes[0], "created"),
            Change::Updated => (&on.entity.routes[3], "updated"),
            Change::Deleted => (&on.entity.routes[4], "deleted"),
            Change::Operation(spec) if !spec.parts.is_empty() || is_poisoned(spec) => return None,
            Change::Operation(spec) => (&spec.policy, spec.name),
        };
        let mut name = Self {
            bytes: [0; 192],
            len: 0,
        };
        let declared = match policy.event {
            Some(event) => event.name,
            None => match on.entity.defaults.event {
                Some(event) => event.name,
                None => None,
            },
        };
        if let Some(declared) = declared {
            name.push(declared.as_bytes(), 0);
            return Some(name);
        }
        if let Some(namespace) = on.entity.namespace {
            name.push(namespace.as_bytes(), 0);
            name.push(b".", 0);
        }
        let path = on.entity.path.as_bytes();
        let mut start = path.len();
        while start > 0 && path[start - 1] != b'/' {
            start -= 1;
        }
        name.push(path, start);
        name.push(b".", 0);
        let from = name.len;
        name.push(last.as_bytes(), 0);
        let mut at = from;
        while at < name.len {
            if name.bytes[at] == b'_' {
                name.bytes[at] = b'-';
            }
            at += 1;
        }
        Some(name)
    }

    const fn push(&mut self, bytes: &[u8], from: usize) {
        let mut at = from;
        while at < bytes.len() && self.len < self.bytes.len() {
            self.bytes[self.len] = bytes[at];
            self.len += 1;
            at += 1;
        }
    }

    const fn text(&self) -> &str {
        let (text, _) = self.bytes.split_at(self.len);
        match std::str::from_utf8(text) {
            Ok(text) => text,
            // The cut is inside a character of several bytes.
            Err(_) => "",
        }
    }
}

/// Fails to compile if a gate, or a permission on another resource, makes the visibility of an
/// event's record depend on a record other than the room's. `by` is the field with the key of the
/// room's record.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn assert_gates(entity: &EntityDesc, of: &EntityDesc, by: Option<usize>) {
    if entity.poisoned || of.poisoned {
        return;
    }
    let mut at = 0;
    while at < entity.gates.len() {
        let gate = &entity.gates[at];
        let leads = match by {
            Some(by) => by == gate.field && same(gate.target.storage_name, of.storage_name),
            None => false,
        };
        if !leads {
            let mut text = Sentence::new();
            text.push("linchpin: gate `");
            text.push(entity.fields[gate.field].name);
            text.push(" -> ");
            text.push(gate.target.name);
            text.push("` of ");
            text.push(entity.name);
            leads_elsewhere(text, of, by.is_some());
        }
        at += 1;
    }
    // The routes are create, list, get, update and delete.
    let read = if by.is_some() { 2 } else { 1 };
    let permission = match entity.routes[read].permission {
        None => entity.defaults.permission,
        own => own,
    };
    let Some(permission) = permission else { return };
    let Some(resource) = permission.resource else {
        return;
    };
    if let Some(by) = by
        && same(entity.fields[by].name, resource)
    {
        return;
    }
    let mut text = Sentence::new();
    text.push("linchpin: permission `");
    text.push(permission.requires);
    text.push("` on `");
    text.push(resource);
    text.push("` of ");
    text.push(entity.name);
    leads_elsewhere(text, of, by.is_some());
}

/// Completes the message, and fails to compile. `record` is true if the event's record has a field
/// with the key of the room's record.
#[track_caller]
const fn leads_elsewhere(mut text: Sentence, of: &EntityDesc, record: bool) {
    if record {
        text.push(" does not lead to the room's `");
        text.push(of.name);
        text.push(
            "`\nhelp: declare a channel of the record to which the gate or the permission leads",
        );
    } else {
        text.push(" leads to a record whose room the members have not joined");
        text.push(
            "\nhelp: declare a channel of that record, and forward the events there with `by`",
        );
    }
    text.stop()
}

/// Fails to compile if a client's event cannot run an operation: the operation has several routes
/// or none, it takes no record by its id, its body is a single value, or the payload lacks a
/// required parameter.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn assert_runs(operation: &OpSpec, entity: &EntityDesc, name: &str, members: &[&str]) {
    if is_poisoned(operation) || entity.poisoned {
        return;
    }
    let mut text = Sentence::new();
    if !operation.parts.is_empty() {
        text.push("linchpin: `");
        text.push(name);
        text.push("` has several routes");
        text.push("\nhelp: use `incoming(function)` with a function that calls the method");
        text.stop()
    }
    if operation.routes.is_empty() || operation.policy.disabled {
        text.push("linchpin: `");
        text.push(name);
        text.push(
            "` has no route, so its policy cannot be checked\nhelp: use `incoming(function)`",
        );
        text.stop()
    }
    let (mut at, mut has_id) = (0, false);
    while at < operation.params.len() {
        let param = &operation.params[at];
        match param.place {
            Place::Id => has_id = true,
            Place::Whole(_) => {
                text.push("linchpin: the body of `");
                text.push(name);
                text.push("` is a single parameter, not an object of parameters");
                text.push("\nhelp: use `incoming(function)` with a function that calls the method");
                text.stop()
            }
            Place::Body | Place::Query | Place::Segment => {
                if param.required && param.default.is_none() && !contains(members, param.name) {
                    text.push("linchpin: parameter `");
                    text.push(param.name);
                    text.push("` of `");
                    text.push(name);
                    text.push("` has no source\nhelp: add a field with this name to the variant");
                    text.stop()
                }
            }
        }
        at += 1;
    }
    if !has_id {
        text.push("linchpin: `");
        text.push(name);
        text.push("` of ");
        text.push(entity.name);
        text.push(" does not take a record by its id, so the room cannot select the record");
        text.push("\nhelp: use `incoming(function)` with a function that calls the method");
        text.stop()
    }
}

/// Fails to compile if an operation has no parameter of this name, or if its type differs.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn assert_parameter<T: FieldType>(
    operation: &OpSpec,
    entity: &EntityDesc,
    name: &str,
    wire: &str,
) {
    if is_poisoned(operation) || entity.poisoned {
        return;
    }
    let mut text = Sentence::new();
    let mut at = 0;
    while at < operation.params.len() {
        let param = &operation.params[at];
        if same(param.name, wire) && !matches!(param.place, Place::Id) {
            let fields = match param.entity {
                Some(entity) => entity.fields,
                None => entity.fields,
            };
            let (have, want) = (<T as FieldType>::KIND, fields[param.field].kind);
            if !param.list && !param.element && !is_compatible(have, want) {
                text.push("linchpin: `");
                text.push(wire);
                text.push("` is ");
                text.push(have.name());
                text.push(", the parameter of `");
                text.push(name);
                text.push("` is ");
                text.push(want.name());
                text.stop()
            }
            return;
        }
        at += 1;
    }
    text.push("linchpin: `");
    text.push(name);
    text.push("` has no parameter `");
    text.push(wire);
    text.push("`\nhelp: remove the field");
    text.stop()
}

/// Whether values of one kind are accepted for another. An enum is text on the wire.
const fn is_compatible(have: Kind, want: Kind) -> bool {
    same(have.name(), want.name())
        || matches!((have, want), (Kind::String, Kind::Enum(_)))
        || matches!((have, want), (Kind::Integer, Kind::Number))
}
