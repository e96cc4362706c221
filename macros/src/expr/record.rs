//! Conditions that depend on the record alone.

use super::filter::{Filter, Operand};
use super::source::Source;
use crate::diagnostics::Diagnostics;

/// Reports values of the caller, of the call and of the time in the condition `when`.
pub(crate) fn of_the_record(filter: &Filter, d: &mut Diagnostics) {
    let mut check = |source: &Source| {
        let form = match source {
            Source::Literal(_) | Source::Null(_) => return,
            Source::Param(_) | Source::Defaulted(..) => "param(..)",
            Source::Input(_) => "input(..)",
            Source::Ctx(..) => "ctx(..)",
            Source::Now(_) => "now()",
            Source::Made("uuid", _) => "uuid()",
            Source::Made(..) => "cuid()",
        };
        let message =
            format!("`when` may compare fields with constants only: `{form}` is not allowed here");
        d.error(&source.tokens(), message)
            .help("a literal, the path of a const, or `None`");
    };
    match filter {
        Filter::All(list) | Filter::Any(list) => {
            for one in list {
                of_the_record(one, d);
            }
        }
        Filter::Cond { operand, .. } => match operand {
            Operand::One(source) | Operand::ListOf(source) => check(source),
            Operand::List(list) => list.iter().for_each(check),
            Operand::Bool(_) => {}
        },
    }
}
