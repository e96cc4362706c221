//! `consume`: takes exactly one record that matches, once.

use quote::quote;

use super::{Kind, Plan, Returns, Shape, record};
use crate::entity::Kind as Type;
use crate::expr::{Scope, type_of};
use crate::operation::args::Args;
use crate::operation::path::Method;

pub(super) struct Consume;

impl Kind for Consume {
    fn name(&self) -> &'static str {
        "consume"
    }

    fn capability(&self, _: &Args) -> &'static str {
        "atomic.consume"
    }

    fn options(&self) -> &'static [&'static str] {
        &["filter", "returns", "expiry"]
    }

    fn required(&self) -> &'static [&'static str] {
        &["filter", "returns"]
    }

    fn resolve(&self, args: &Args, name: &str, scope: &mut Scope<'_>) -> Option<Plan> {
        let filter = record::filter(args, &format!("consume `{name}`"), &[], scope);
        let boolean = args.choice("returns", &["entity", "boolean"], scope.d) == "boolean";
        let expiry = expiry(args, scope).map(|field| {
            let field = scope.model.number(field);
            quote!(.expiry(#field))
        });
        let flag = boolean.then(|| quote!(.boolean()));
        let filter = filter?;
        Some(Plan {
            descriptor: quote!(__lp::Consume::new(#filter) #expiry #flag),
            shape: Shape::Collection { segments: Vec::new() },
            method: Method::Post,
            returns: if boolean { Returns::Boolean } else { Returns::Optional },
            errors: "`validation_failed` when a value is missing.",
            parts: Vec::new(),
            list: 0,
        })
    }
}

fn expiry(args: &Args, scope: &mut Scope<'_>) -> Option<usize> {
    let ident = args.ident("expiry", "expiry = expires_at", scope.d)?;
    let field = scope.field(&ident)?;
    let of = scope.at(field);
    match of.kind {
        Type::Date => {}
        Type::Other => scope.needs(field, &ident, "DATES", "expiry"),
        _ => {
            scope.d.error(&ident, format!("expiry needs a date field, `{}` is {}", of.name, type_of(of)));
            return None;
        }
    }
    Some(field)
}
