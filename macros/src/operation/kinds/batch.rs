//! `batch`: changes or removes every record that matches; or claims the first of them for code.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Kind, Plan, Returns, Shape, lookup, record};
use crate::expr::{self, Role, Scope};
use crate::operation::args::Args;
use crate::operation::path::Method;
use crate::options::{OptValue, as_text};

pub(super) struct Batch;

impl Kind for Batch {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn capability(&self, _: &Args) -> &'static str {
        "batch.write"
    }

    fn options(&self) -> &'static [&'static str] {
        &["action", "filter", "set", "atomic", "returns", "limit", "sort", "optional_params"]
    }

    fn required(&self) -> &'static [&'static str] {
        &["action", "filter"]
    }

    fn resolve(&self, args: &Args, name: &str, scope: &mut Scope<'_>) -> Option<Plan> {
        let optional = record::optional(args, scope);
        if args
            .get("returns")
            .is_some_and(|opt| matches!(&opt.value, OptValue::Expr(value) if as_text(value).is_some_and(|text| text.value() == "records")))
        {
            // It has no route.
            scope.callers = false;
        }
        let filter = record::filter(args, &format!("batch `{name}`"), &optional.names, scope);
        let delete = args.choice("action", &["update", "delete"], scope.d) == "delete";
        let pairs = args.pairs("set", scope.d);
        let set = scope.assigns(&pairs, |_| Role::Write);
        record::written(&set, None, scope);
        optional.check(scope);
        if let (Some(filter), Some(opt), true) = (&filter, args.get("filter"), args.get("optional_params").is_some()) {
            optional.narrows(name, filter, &opt.key, scope);
        }
        match (delete, args.get("set"), args.get("action")) {
            (true, Some(opt), _) => {
                scope.d.error(&opt.key, "`set` has no meaning with `action = \"delete\"`").help("leave it out");
            }
            (false, None, Some(action)) => {
                scope.d.error(&action.key, format!("batch `{name}` updates nothing")).help("`set(status = Status::Archived)`");
            }
            _ => {}
        }
        let returns = args.choice("returns", &["count", "void", "records"], scope.d);
        let claim = claim(args, returns == "records", delete, name, scope);
        let atomic = args.flag("atomic", scope.d).then(|| quote!(.atomic()));
        let filter = filter?;
        let set = expr::assigns(&set);
        let make = if delete { quote!(delete(#filter)) } else { quote!(update(#filter, #set)) };
        let nothing = (returns == "void").then(|| quote!(.void()));
        let (shape, returns) = match returns {
            "records" => (Shape::Adapter, Returns::Records(scope.entity.clone())),
            "void" => (Shape::Collection { segments: Vec::new() }, Returns::Nothing),
            _ => (Shape::Collection { segments: Vec::new() }, Returns::Count),
        };
        Some(Plan {
            descriptor: quote!(__lp::Batch::#make #nothing #atomic #claim),
            shape,
            method: Method::Post,
            returns,
            errors: "`validation_failed`; `conflict` for a taken unique, and then nothing has changed.",
            parts: Vec::new(),
            list: 0,
        })
    }
}

/// `limit` and `sort` of a batch that answers its records, which is for code alone: rule X18.
fn claim(args: &Args, records: bool, delete: bool, name: &str, scope: &mut Scope<'_>) -> Option<TokenStream> {
    let limit = lookup::limit(args, scope);
    let sort = lookup::sort(args, scope, false);
    if !records {
        for option in ["limit", "sort"] {
            if let Some(opt) = args.get(option) {
                scope.d.error(&opt.key, format!("`{option}` needs `returns = \"records\"`"));
            }
        }
        return None;
    }
    if let (true, Some(returns)) = (delete, args.get("returns")) {
        scope.d.error(&returns.key, "`returns = \"records\"` needs `action = \"update\"`").help("kind `consume` takes a record out");
    }
    if let (None, Some(returns)) = (args.get("limit"), args.get("returns")) {
        scope.d.error(&returns.key, format!("batch `{name}` answers its records and needs a bound")).help("`limit = 100`");
    }
    args.refuse_route(&format!("batch `{name}` answers its records: it is for code and has no route"), scope.d);
    let limit = proc_macro2::Literal::u32_unsuffixed(limit?);
    let sort = sort.map(|(field, desc)| {
        let (field, direction) = (scope.model.number(field), if desc { quote!(desc) } else { quote!(asc) });
        quote!(.sort(__lp::#direction(#field)))
    });
    Some(quote!(.claim(#limit) #sort))
}
