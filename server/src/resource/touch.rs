//! The values that every change of a record writes.

use crate::Value;
use crate::entity::{EntityDesc, Flags};
use crate::filter::Source;
use crate::store::{Assign, AssignValue};

/// Adds the values that every change writes: on-update dates (from the argument slot `now`) and the
/// version.
pub(super) fn touch(desc: &EntityDesc, mut set: Vec<Assign>, now: usize) -> Vec<Assign> {
    for (field, of) in desc.fields.iter().enumerate() {
        if set.iter().any(|a| a.field == field) {
            continue;
        }
        if of.flags.has(Flags::ON_UPDATE) {
            set.push(Assign {
                field,
                value: AssignValue::Set(Source::Arg {
                    index: now,
                    nullable: false,
                }),
            });
        } else if of.flags.has(Flags::VERSION) {
            set.push(Assign {
                field,
                value: AssignValue::Add(Source::Value(Value::Int(1))),
            });
        }
    }
    set
}
