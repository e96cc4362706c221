//! `exists`: whether a record with these values is visible.

use quote::quote;

use super::lookup::{fields, segments};
use super::{Kind, Plan, Returns, Shape};
use crate::expr::{self, Beside, Scope};
use crate::operation::args::Args;
use crate::operation::path::Method;

pub(super) struct Exists;

impl Kind for Exists {
    fn name(&self) -> &'static str {
        "exists"
    }

    fn capability(&self, _: &Args) -> &'static str {
        "operation.exists"
    }

    fn options(&self) -> &'static [&'static str] {
        &["fields", "check"]
    }

    fn required(&self) -> &'static [&'static str] {
        &["fields"]
    }

    fn resolve(&self, args: &Args, _: &str, scope: &mut Scope<'_>) -> Option<Plan> {
        let fields_of = fields(args, "fields", scope, &|_| true);
        let check = fields(args, "check", scope, &|_| true);
        let visible: Vec<Beside> = scope.visible().into_iter().collect();
        expr::check(scope, "`fields`", &expr::equalities(&fields_of), &visible);
        let beside: Vec<Beside> = Beside::equal("`fields`", &fields_of).into_iter().chain(visible).collect();
        expr::check(scope, "`check`", &expr::equalities(&check), &beside);
        let (fields, check) = (expr::assigns(&fields_of), expr::unless_empty("check", &check));
        Some(Plan {
            descriptor: quote!(__lp::Exists::new(#fields) #check),
            shape: Shape::Collection { segments: segments(&fields_of, scope, &[]) },
            method: Method::Get,
            returns: Returns::Boolean,
            errors: "`validation_failed` when a value is missing.",
            parts: Vec::new(),
            list: 0,
        })
    }
}
