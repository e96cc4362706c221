//! The attribute syntax of `#[entity(..)]`: tokens to plain structs, nothing judged yet.

use proc_macro2::TokenStream;
use syn::{Expr, Ident, LitStr, Path};

use crate::diagnostics::{Diagnostics, nearest};
use crate::options::{self, Opt, OptValue};
use crate::policy::{self, Policy};

const ENTITY_OPTIONS: &[&str] = &[
    "name",
    "namespace",
    "path",
    "storage_name",
    "index",
    "unique",
    "sort",
    "pagination",
    "version",
    "check",
    "rename_from",
    "stores",
    "routes",
    "crate",
];
const ENTITY_LATER: &[&str] = &[
    "soft_delete",
    "ttl",
    "tenant",
    "scope",
    "search",
    "belongs_to",
    "has_many",
    "parent_path",
    "gate",
    "visible",
    "counter",
    "tally",
    "latest",
    "prepare",
    "erase",
    "unscoped",
    "overrides",
    "events",
];

/// The five routes, in the order of the descriptor.
pub(crate) const ROUTES: [&str; 5] = ["create", "list", "get", "update", "delete"];

/// `#[entity(..)]` as written.
#[derive(Debug, std::default::Default)]
pub(crate) struct EntityArgs {
    pub(crate) krate: Option<Path>,
    pub(crate) name: Option<LitStr>,
    pub(crate) namespace: Option<LitStr>,
    pub(crate) path: Option<LitStr>,
    pub(crate) storage_name: Option<LitStr>,
    pub(crate) indexes: Vec<IndexArgs>,
    pub(crate) uniques: Vec<UniqueArgs>,
    pub(crate) sort: Option<Member>,
    pub(crate) pagination: PaginationArgs,
    pub(crate) version: Option<VersionArgs>,
    pub(crate) check: Option<Path>,
    pub(crate) rename_from: Option<LitStr>,
    pub(crate) stores: Vec<Ident>,
    pub(crate) defaults: Policy,
    pub(crate) routes: [Policy; 5],
}

/// `index(a, desc(b))`.
#[derive(Debug)]
pub(crate) struct IndexArgs {
    pub(crate) key: Ident,
    pub(crate) members: Vec<Member>,
}

/// `unique(a, b, global)`.
#[derive(Debug)]
pub(crate) struct UniqueArgs {
    pub(crate) key: Ident,
    pub(crate) members: Vec<Member>,
    pub(crate) global: bool,
}

/// A field named in a list, with its direction.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) ident: Ident,
    pub(crate) desc: bool,
}

/// `pagination(default = 20, max = 100, unbounded_lookup = false)`; literals or paths of `u32` consts.
#[derive(Debug, std::default::Default)]
pub(crate) struct PaginationArgs {
    pub(crate) default: Option<Expr>,
    pub(crate) max: Option<Expr>,
    pub(crate) unbounded_lookup: Option<bool>,
}

/// `version(field = rev, required_on_write = false)`.
#[derive(Debug)]
pub(crate) struct VersionArgs {
    pub(crate) key: Ident,
    pub(crate) field: Option<Ident>,
    pub(crate) required_on_write: bool,
}

impl EntityArgs {
    /// Reads the arguments of the attribute.
    pub(crate) fn parse(tokens: TokenStream, d: &mut Diagnostics) -> Self {
        let options = options::parse(tokens, d);
        options::repeated(&options, &["index", "unique"], d);
        let mut args = Self::default();
        for opt in &options {
            args.option(opt, d);
        }
        args
    }

    fn option(&mut self, opt: &Opt, d: &mut Diagnostics) {
        match opt.name().as_str() {
            "name" => self.name = opt.text("name = \"Post\"", d),
            "namespace" => self.namespace = opt.text("namespace = \"blog\"", d),
            "path" => self.path = opt.text("path = \"news/posts\"", d),
            "storage_name" => self.storage_name = opt.text("storage_name = \"posts\"", d),
            "rename_from" => self.rename_from = opt.text("rename_from = \"old_posts\"", d),
            "index" => {
                if let Some(list) = opt.list("index(author_id, desc(created_at))", d) {
                    let members = members(opt, list, d);
                    self.indexes.push(IndexArgs { key: opt.key.clone(), members });
                }
            }
            "unique" => {
                if let Some(list) = opt.list("unique(slug)", d) {
                    let mut members = members(opt, list, d);
                    let count = members.len();
                    members.retain(|m| m.desc || m.ident != "global");
                    if members.is_empty() && count > 0 {
                        d.error(&opt.key, "`unique` names no field").help("`unique(slug, global)`");
                    }
                    self.uniques.push(UniqueArgs { key: opt.key.clone(), global: members.len() < count, members });
                }
            }
            "sort" => self.sort = sort(opt, d),
            "pagination" => self.pagination = pagination(opt, d),
            "version" => self.version = Some(version(opt, d)),
            "check" => self.check = path(opt, "check = dates_in_order", d),
            "crate" => self.krate = path(opt, "crate = ::framework::linchpin", d),
            "stores" => {
                if let Some(list) = opt.list("stores(sqlite)", d) {
                    self.stores = options::each(list, d);
                }
            }
            "routes" => {
                if let Some(list) = opt.list("routes(auth = none, delete(roles = [\"admin\"]))", d) {
                    self.routes(list, d);
                }
            }
            _ => options::unknown(opt, "entity", ENTITY_OPTIONS, ENTITY_LATER, d),
        }
    }

    fn routes(&mut self, list: TokenStream, d: &mut Diagnostics) {
        let options = options::parse(list, d);
        options::repeated(&options, &[], d);
        for opt in &options {
            let name = opt.name();
            if let Some(route) = ROUTES.iter().position(|r| *r == name) {
                let Some(list) = opt.list(&format!("{name}(roles = [\"admin\"])"), d) else { continue };
                let keys = options::parse(list, d);
                options::repeated(&keys, &[], d);
                for key in &keys {
                    if !self.routes[route].option(key, d) {
                        options::unknown(key, "route", policy::KEYS, policy::LATER, d);
                    }
                }
            } else if !self.defaults.option(opt, d) {
                Self::unknown_route(opt, d);
            }
        }
        // `disabled` is never inherited; at the level of defaults it means all five.
        if std::mem::take(&mut self.defaults.disabled) {
            self.routes.iter_mut().for_each(|route| route.disabled = true);
        }
    }

    fn unknown_route(opt: &Opt, d: &mut Diagnostics) {
        let name = opt.name();
        let known = ROUTES.iter().chain(policy::KEYS).copied();
        if policy::LATER.contains(&name.as_str()) {
            d.error(&opt.key, format!("route option `{name}` is not supported yet"));
        } else if matches!(opt.value, OptValue::List(_)) {
            let problem = d.error(&opt.key, format!("unknown route `{name}`"));
            match nearest(&name, ROUTES) {
                Some(route) => problem.help(format!("`{route}`")),
                None => problem.help("routes of operations take their policy in `route(..)` of #[operation]"),
            }
        } else {
            d.error(&opt.key, format!("unknown route option `{name}`")).suggest(&name, known);
        }
    }
}

fn members(opt: &Opt, list: TokenStream, d: &mut Diagnostics) -> Vec<Member> {
    if list.is_empty() {
        d.error(&opt.key, format!("`{}` names no field", opt.key)).help(format!("`{}(created_at)`", opt.key));
    }
    let members = options::each::<Expr>(list, d);
    members.iter().filter_map(|expr| member(expr, d)).collect()
}

/// `field`, `asc(field)` or `desc(field)`.
pub(crate) fn member(expr: &Expr, d: &mut Diagnostics) -> Option<Member> {
    if let Some(ident) = options::as_ident(expr) {
        return Some(Member { ident: ident.clone(), desc: false });
    }
    if let Expr::Call(call) = expr
        && let Some(direction) = options::as_ident(&call.func)
        && let Some(ident) = call.args.first().and_then(options::as_ident)
        && call.args.len() == 1
    {
        if direction == "asc" || direction == "desc" {
            return Some(Member { ident: ident.clone(), desc: direction == "desc" });
        }
        d.error(direction, format!("unknown direction `{direction}`")).help(format!("`asc({ident})` or `desc({ident})`"));
        return None;
    }
    d.error(expr, "expected the name of a field").help("`created_at` or `desc(created_at)`");
    None
}

fn sort(opt: &Opt, d: &mut Diagnostics) -> Option<Member> {
    if let OptValue::List(_) = opt.value {
        d.error(&opt.key, "a default sort over several fields is not supported yet").help("`sort = desc(created_at)`");
        return None;
    }
    member(opt.expr("sort = desc(created_at)", d)?, d)
}

fn pagination(opt: &Opt, d: &mut Diagnostics) -> PaginationArgs {
    const EXAMPLE: &str = "pagination(default = 20, max = 100)";
    let mut args = PaginationArgs::default();
    let options = opt.list(EXAMPLE, d).map(|list| options::parse(list, d)).unwrap_or_default();
    options::repeated(&options, &[], d);
    for opt in &options {
        match opt.name().as_str() {
            "default" => args.default = opt.expr("default = 20", d).cloned(),
            "max" => args.max = opt.expr("max = 100", d).cloned(),
            "unbounded_lookup" => args.unbounded_lookup = opt.boolean(d),
            _ => options::unknown(opt, "pagination", &["default", "max", "unbounded_lookup"], &[], d),
        }
    }
    args
}

fn version(opt: &Opt, d: &mut Diagnostics) -> VersionArgs {
    let mut args = VersionArgs { key: opt.key.clone(), field: None, required_on_write: true };
    let options = match &opt.value {
        OptValue::Flag => Vec::new(),
        _ => opt.list("version(field = rev)", d).map(|list| options::parse(list, d)).unwrap_or_default(),
    };
    options::repeated(&options, &[], d);
    for opt in &options {
        match opt.name().as_str() {
            "field" => args.field = opt.ident("field = rev", d),
            "required_on_write" => args.required_on_write = opt.boolean(d).unwrap_or(true),
            _ => options::unknown(opt, "version", &["field", "required_on_write"], &[], d),
        }
    }
    args
}

fn path(opt: &Opt, example: &str, d: &mut Diagnostics) -> Option<Path> {
    match opt.expr(example, d)? {
        Expr::Path(path) if path.qself.is_none() => Some(path.path.clone()),
        other => {
            d.error(other, format!("`{}` needs a path", opt.key)).help(format!("`{example}`"));
            None
        }
    }
}
