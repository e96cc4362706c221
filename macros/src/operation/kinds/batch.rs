//! `batch`: changes or removes every record that matches.

use quote::quote;

use super::{Kind, Plan, Returns, Shape, record};
use crate::expr::{self, Role, Scope};
use crate::operation::args::Args;
use crate::operation::path::Method;

pub(super) struct Batch;

impl Kind for Batch {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn capability(&self) -> &'static str {
        "batch.write"
    }

    fn options(&self) -> &'static [&'static str] {
        &["action", "filter", "set", "atomic", "returns"]
    }

    fn required(&self) -> &'static [&'static str] {
        &["action", "filter"]
    }

    fn later(&self) -> &'static [&'static str] {
        &["limit", "sort"]
    }

    fn resolve(&self, args: &Args, name: &str, scope: &mut Scope<'_>) -> Option<Plan> {
        let filter = record::filter(args, scope);
        let delete = args.choice("action", &["update", "delete"], scope.d) == "delete";
        let pairs = args.pairs("set", scope.d);
        let set = scope.assigns(&pairs, |_| Role::Write);
        record::written(&set, None, scope);
        match (delete, args.get("set"), args.get("action")) {
            (true, Some(opt), _) => {
                scope.d.error(&opt.key, "`set` has no meaning with `action = \"delete\"`").help("leave it out");
            }
            (false, None, Some(action)) => {
                scope.d.error(&action.key, format!("batch `{name}` updates nothing")).help("`set(status = Status::Archived)`");
            }
            _ => {}
        }
        let void = args.choice("returns", &["count", "void"], scope.d) == "void";
        let atomic = args.flag("atomic", scope.d).then(|| quote!(.atomic()));
        let filter = filter?;
        let set = expr::assigns(&set);
        let make = if delete { quote!(delete(#filter)) } else { quote!(update(#filter, #set)) };
        let nothing = void.then(|| quote!(.void()));
        Some(Plan {
            descriptor: quote!(__lp::Batch::#make #nothing #atomic),
            shape: Shape::Collection { segments: Vec::new() },
            method: Method::Post,
            returns: if void { Returns::Nothing } else { Returns::Count },
            errors: "`validation_failed`; `conflict` for a taken unique, and then nothing has changed.",
            parts: Vec::new(),
            list: 0,
        })
    }
}
