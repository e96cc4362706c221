//! Conditions that depend on the record alone.

use super::filter::{Filter, Operand};
use super::source::Source;
use crate::diagnostics::Diagnostics;

/// Reports values of the caller, of the call and of the time in a condition; `message` says what
/// the condition decides.
pub(crate) fn of_the_record(filter: &Filter, message: &str, d: &mut Diagnostics) {
    let mut judge = |source: &Source| {
        if !matches!(source, Source::Literal(_) | Source::Null(_)) {
            d.error(&source.tokens(), message)
                .help("a literal, the path of a const, or `None`");
        }
    };
    match filter {
        Filter::All(list) | Filter::Any(list) => {
            for one in list {
                of_the_record(one, message, d);
            }
        }
        Filter::Cond { operand, .. } => match operand {
            Operand::One(source) | Operand::ListOf(source) => judge(source),
            Operand::List(list) => list.iter().for_each(judge),
            Operand::Bool(_) => {}
        },
    }
}
