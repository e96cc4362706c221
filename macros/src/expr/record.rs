//! Conditions that depend only on the record.

use super::filter::{Filter, Operand};
use super::source::Source;
use crate::diagnostics::Diagnostics;

/// Reports values in the condition `when` that are not constants, such as `ctx(..)`, `param(..)`
/// and `now()`.
pub(crate) fn check_when_sources(filter: &Filter, d: &mut Diagnostics) {
    let mut check = |source: &Source| {
        let form = match source {
            Source::Literal(_) | Source::Null(_) => return,
            Source::Param(_) | Source::Defaulted(..) => "param(..)",
            Source::Input(_) => "input(..)",
            Source::Ctx(..) => "ctx(..)",
            Source::Now(_) => "now()",
            Source::NewId("uuid", _) => "uuid()",
            Source::NewId(..) => "cuid()",
        };
        let message =
            format!("`when` can compare fields only with constants: `{form}` is not allowed here");
        d.error(&source.tokens(), message)
            .help("a literal, the path of a const, or `None`");
    };
    match filter {
        Filter::All(list) | Filter::Any(list) => {
            for one in list {
                check_when_sources(one, d);
            }
        }
        Filter::Cond { operand, .. } => match operand {
            Operand::One(source) | Operand::ListOf(source) => check(source),
            Operand::List(list) => list.iter().for_each(check),
            Operand::Bool(_) => {}
        },
    }
}
