//! `field_update`: writes some fields of one record, given in the body.

use quote::quote;

use super::{Kind, Plan, Returns, Shape, record};
use crate::expr::{self, Scope};
use crate::operation::args::Args;
use crate::operation::path::Method;

pub(super) struct FieldUpdate;

impl Kind for FieldUpdate {
    fn name(&self) -> &'static str {
        "field_update"
    }

    fn capability(&self, _: &Args) -> &'static str {
        "atomic.field-update"
    }

    fn options(&self) -> &'static [&'static str] {
        &["match", "set", "partial", "nullable"]
    }

    fn required(&self) -> &'static [&'static str] {
        &["set"]
    }

    fn resolve(&self, args: &Args, name: &str, scope: &mut Scope<'_>) -> Option<Plan> {
        let matches = record::matches(args, name, scope);
        let (partial, nullable) = (args.flag("partial", scope.d), args.flag("nullable", scope.d));
        let set = record::from_body(args, "set", scope, |_| (!partial, nullable));
        record::written(&set, None, scope);
        if nullable {
            for assign in &set {
                let of = scope.at(assign.field);
                if !of.optional {
                    let text = format!("`{}` is required, `nullable` impossible", of.name);
                    scope.d.error(&assign.key, text).help(format!("`{}: Option<..>`, or leave `nullable` out", of.name));
                }
            }
        }
        let (matches, set) = (expr::assigns(&matches?), expr::assigns(&set));
        Some(Plan {
            descriptor: quote!(__lp::FieldUpdate::new(#set, #matches)),
            shape: Shape::ById,
            method: Method::Patch,
            returns: Returns::Record,
            errors: "`not_found`; `validation_failed`; `conflict` for a taken unique.",
            parts: Vec::new(),
            list: 0,
        })
    }
}
