//! The attribute syntax of `#[entity(..)]`: tokens to plain structs, without checks.

use darling::FromMeta;
use proc_macro2::TokenStream;
use syn::{Expr, Ident, LitStr, Path};

use super::gates::GatesArgs;
use super::relations::RelationArgs;
use super::summaries::SummaryArgs;
use super::visibility::{VisibilityArgs, VisibilityKeys};
use crate::diagnostics::{Diagnostics, nearest};
use crate::list::List;
use crate::operation::path::{RouteArgs, RouteOverride};
use crate::options::{self, Opt, OptValue, Rest};
use crate::policy::{self, Policy};

pub(crate) const ENTITY_OPTIONS: &[&str] = &[
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
    "soft_delete",
    "ttl",
    "tenant",
    "scope",
    "parent_path",
    "belongs_to",
    "has_many",
    "search",
    "gate",
    "visible",
    "action",
    "counter",
];
const PLANNED_ENTITY_OPTIONS: &[&str] = &["tally", "latest", "prepare", "erase"];

/// The keys that may be given more than once.
const REPEATABLE: [&str; 8] = [
    "index",
    "unique",
    "scope",
    "belongs_to",
    "has_many",
    "gate",
    "action",
    "counter",
];

/// The five routes, in the order of the descriptor.
pub(crate) const ROUTES: [&str; 5] = ["create", "list", "get", "update", "delete"];

/// `#[entity(..)]` as written.
#[derive(Debug, Default)]
pub(crate) struct EntityArgs {
    pub(crate) krate: Option<Path>,
    pub(crate) name: Option<LitStr>,
    pub(crate) namespace: Option<LitStr>,
    pub(crate) path: Option<LitStr>,
    pub(crate) storage_name: Option<LitStr>,
    pub(crate) indexes: Vec<IndexArgs>,
    pub(crate) uniques: Vec<UniqueArgs>,
    pub(crate) sort: Vec<Member>,
    pub(crate) pagination: PaginationArgs,
    /// `list(paging = "page")` in `routes(..)`.
    pub(crate) numbered: bool,
    pub(crate) version: Option<VersionArgs>,
    pub(crate) check: Option<Path>,
    pub(crate) rename_from: Vec<LitStr>,
    pub(crate) stores: Vec<Ident>,
    pub(crate) defaults: Policy,
    pub(crate) routes: [Policy; 5],
    pub(crate) route_override: [RouteOverride; 5],
    pub(crate) visibility: VisibilityArgs,
    pub(crate) relations: Vec<RelationArgs>,
    pub(crate) summaries: Vec<SummaryArgs>,
    pub(crate) search: Option<Opt>,
    pub(crate) gates: GatesArgs,
    /// Whether an option other than `routes(..)` could not be read.
    pub(crate) unread: bool,
    /// Whether `routes(..)` could not be read.
    pub(crate) routes_unread: bool,
}

/// `index(a, desc(b), global)`.
#[derive(Debug)]
pub(crate) struct IndexArgs {
    pub(crate) key: Ident,
    pub(crate) members: Vec<Member>,
    /// The word `global`.
    pub(crate) global: Option<Ident>,
}

/// `unique(a, b, global)`.
#[derive(Debug)]
pub(crate) struct UniqueArgs {
    pub(crate) key: Ident,
    pub(crate) members: Vec<Member>,
    pub(crate) global: bool,
}

/// A field in a list, with its direction.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) ident: Ident,
    pub(crate) desc: bool,
}

/// `pagination(default = 20, max = 100, unbounded_lookup = false)`; literals or paths of `u32`
/// consts.
#[derive(Debug, Default)]
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

/// The keys of `#[entity(..)]`.
#[derive(Debug, Default, FromMeta)]
struct EntityKeys {
    name: Option<Opt>,
    namespace: Option<Opt>,
    path: Option<Opt>,
    storage_name: Option<Opt>,
    #[darling(multiple)]
    index: Vec<Opt>,
    #[darling(multiple)]
    unique: Vec<Opt>,
    sort: Option<Opt>,
    pagination: Option<Opt>,
    version: Option<Opt>,
    check: Option<Opt>,
    rename_from: Option<Opt>,
    stores: Option<Opt>,
    routes: Option<Opt>,
    search: Option<Opt>,
    #[darling(rename = "crate")]
    krate: Option<Opt>,
    #[darling(multiple)]
    belongs_to: Vec<Opt>,
    #[darling(multiple)]
    has_many: Vec<Opt>,
    #[darling(multiple)]
    gate: Vec<Opt>,
    visible: Option<Opt>,
    #[darling(multiple)]
    action: Vec<Opt>,
    #[darling(multiple)]
    counter: Vec<Opt>,
    #[darling(flatten)]
    visibility: VisibilityKeys,
}

impl EntityArgs {
    /// Reads the arguments of the attribute.
    pub(crate) fn parse(tokens: TokenStream, d: &mut Diagnostics) -> Self {
        let before = d.len();
        let keys: EntityKeys = options::table(options::read(tokens, d), &REPEATABLE, d);
        keys.visibility
            .rest
            .refuse("entity", ENTITY_OPTIONS, PLANNED_ENTITY_OPTIONS, d);
        let belongs_to = keys
            .belongs_to
            .iter()
            .filter_map(|opt| RelationArgs::belongs_to(opt, d))
            .collect::<Vec<_>>();
        let has_many = keys
            .has_many
            .iter()
            .filter_map(|opt| RelationArgs::has_many(opt, d))
            .collect::<Vec<_>>();
        let mut args = Self {
            relations: belongs_to.into_iter().chain(has_many).collect(),
            summaries: keys
                .counter
                .iter()
                .filter_map(|opt| SummaryArgs::counter(opt, d))
                .collect(),
            krate: keys
                .krate
                .and_then(|opt| opt.path("crate = ::framework::linchpin", d)),
            name: keys.name.and_then(|opt| opt.text("name = \"Post\"", d)),
            namespace: keys
                .namespace
                .and_then(|opt| opt.text("namespace = \"blog\"", d)),
            path: keys
                .path
                .and_then(|opt| opt.text("path = \"news/posts\"", d)),
            storage_name: keys
                .storage_name
                .and_then(|opt| opt.text("storage_name = \"posts\"", d)),
            indexes: keys
                .index
                .into_iter()
                .filter_map(|opt| index(opt, d))
                .collect(),
            uniques: keys
                .unique
                .into_iter()
                .filter_map(|opt| unique(opt, d))
                .collect(),
            sort: keys.sort.map(|opt| sort(&opt, d)).unwrap_or_default(),
            pagination: keys
                .pagination
                .map(|opt| pagination(&opt, d))
                .unwrap_or_default(),
            version: keys.version.map(|opt| version(opt, d)),
            check: keys
                .check
                .and_then(|opt| opt.path("check = dates_in_order", d)),
            rename_from: keys
                .rename_from
                .map(|opt| opt.texts("rename_from = \"old_posts\"", d))
                .unwrap_or_default(),
            stores: keys
                .stores
                .and_then(|opt| opt.list("stores(sqlite)", d))
                .map(|list| options::each(list, d))
                .unwrap_or_default(),
            visibility: VisibilityArgs::read(keys.visibility, d),
            gates: GatesArgs::read(&keys.gate, keys.visible.as_ref(), &keys.action, d),
            search: keys.search,
            ..Self::default()
        };
        args.unread = d.len() > before;
        let before = d.len();
        if let Some(list) = keys
            .routes
            .and_then(|opt| opt.list("routes(auth = none, delete(roles = [\"admin\"]))", d))
        {
            args.routes(list, d);
        }
        args.routes_unread = d.len() > before;
        args
    }

    fn routes(&mut self, list: List, d: &mut Diagnostics) {
        let options = options::parse(list, d);
        options::repeated(&options, &[], d);
        for opt in &options {
            let name = opt.name();
            if let Some(route) = ROUTES.iter().position(|r| *r == name) {
                let Some(list) = opt.list(&format!("{name}(roles = [\"admin\"])"), d) else {
                    continue;
                };
                let keys = options::parse(list, d);
                options::repeated(&keys, &[], d);
                let mut args = RouteArgs::default();
                for key in &keys {
                    if name == "list" && key.name() == "paging" {
                        self.numbered = read_page_numbers(key, "paging = \"page\"", d);
                    } else if !args.option(key, false, d) {
                        args.others.push(key.clone());
                    }
                }
                args.refuse_others_of("route", d);
                (self.routes[route], self.route_override[route]) =
                    (args.policy, args.route_override);
            } else if policy::SINGLE_ROUTE_KEYS.contains(&name.as_str()) {
                d.error(&opt.key, format!("`{name}` belongs to one route"))
                    .help(format!("`routes(get({name} = \"..\"))`"));
            } else if !self.defaults.option(opt, d) {
                Self::unknown_route(opt, d);
            }
        }
        // `disabled` is never inherited. In the defaults it applies to all five routes.
        if std::mem::take(&mut self.defaults.disabled) {
            self.routes
                .iter_mut()
                .for_each(|route| route.disabled = true);
        }
    }

    fn unknown_route(opt: &Opt, d: &mut Diagnostics) {
        let name = opt.name();
        let known = ROUTES.iter().chain(policy::KEYS).copied();
        if policy::PLANNED_KEYS.contains(&name.as_str()) {
            d.error(
                &opt.key,
                format!("route option `{name}` is not supported yet"),
            );
        } else if matches!(opt.value, OptValue::List(_)) {
            match (
                nearest(&name, ROUTES),
                nearest(&name, policy::KEYS.iter().copied()),
            ) {
                (Some(route), _) => d
                    .error(&opt.key, format!("unknown route `{name}`"))
                    .help(format!("`{route}`")),
                (None, Some(key)) => d
                    .error(&opt.key, format!("unknown route option `{name}`"))
                    .help(format!("`{key}`")),
                (None, None) => d
                    .error(&opt.key, format!("unknown route `{name}`"))
                    .help("write the policy of an operation in `route(..)` of #[operation]"),
            }
        } else {
            d.error(&opt.key, format!("unknown route option `{name}`"))
                .suggest(&name, known);
        }
    }
}

fn index(opt: Opt, d: &mut Diagnostics) -> Option<IndexArgs> {
    let list = opt.list("index(author_id, desc(created_at))", d)?;
    let (members, global) = fields_or_global(&opt, list, "index(created_at, global)", d);
    Some(IndexArgs {
        members,
        global,
        key: opt.key,
    })
}

fn unique(opt: Opt, d: &mut Diagnostics) -> Option<UniqueArgs> {
    let list = opt.list("unique(slug)", d)?;
    let (members, global) = fields_or_global(&opt, list, "unique(slug, global)", d);
    Some(UniqueArgs {
        key: opt.key,
        global: global.is_some(),
        members,
    })
}

/// The fields of a list, and the word `global` if it is one of them.
fn fields_or_global(
    opt: &Opt,
    list: List,
    example: &str,
    d: &mut Diagnostics,
) -> (Vec<Member>, Option<Ident>) {
    let mut members = members(opt, list, d);
    let words = members.extract_if(.., |m| !m.desc && m.ident == "global");
    let global = words.map(|m| m.ident).next();
    if members.is_empty() && global.is_some() {
        d.error(&opt.key, format!("`{}` needs at least one field", opt.key))
            .help(format!("`{example}`"));
    }
    (members, global)
}

pub(crate) fn members(opt: &Opt, list: List, d: &mut Diagnostics) -> Vec<Member> {
    if list.is_empty() {
        d.error(&opt.key, format!("`{}` needs at least one field", opt.key))
            .help(format!("`{}(created_at)`", opt.key));
    }
    let members = options::each::<Expr>(list, d);
    members.iter().filter_map(|expr| member(expr, d)).collect()
}

/// `field`, `asc(field)` or `desc(field)`.
pub(crate) fn member(expr: &Expr, d: &mut Diagnostics) -> Option<Member> {
    if let Some(ident) = options::as_ident(expr) {
        return Some(Member {
            ident: ident.clone(),
            desc: false,
        });
    }
    if let Expr::Call(call) = expr
        && let Some(direction) = options::as_ident(&call.func)
        && let Some(ident) = call.args.first().and_then(options::as_ident)
        && call.args.len() == 1
    {
        if direction == "asc" || direction == "desc" {
            return Some(Member {
                ident: ident.clone(),
                desc: direction == "desc",
            });
        }
        d.error(direction, format!("unknown direction `{direction}`"))
            .help(format!("`asc({ident})` or `desc({ident})`"));
        return None;
    }
    d.error(expr, "expected the name of a field")
        .help("`created_at` or `desc(created_at)`");
    None
}

/// `sort = desc(created_at)` or `sort(desc(pinned), desc(created_at))`.
fn sort(opt: &Opt, d: &mut Diagnostics) -> Vec<Member> {
    match &opt.value {
        OptValue::List(list) => members(opt, list.clone(), d),
        _ => opt
            .expr("sort = desc(created_at)", d)
            .and_then(|expr| member(expr, d))
            .into_iter()
            .collect(),
    }
}

/// Reads `paging = "page"`, the only value of this option. Returns whether pages are numbered. An
/// unknown text is reported, and the result is `true`.
pub(crate) fn read_page_numbers(opt: &Opt, example: &str, d: &mut Diagnostics) -> bool {
    let Some(text) = opt.text(example, d) else {
        return false;
    };
    if text.value() != "page" {
        d.error(
            &text,
            format!("unknown value \"{}\" of `{}`", text.value(), opt.key),
        )
        .help(format!("`{example}`"));
    }
    true
}

/// The keys of `pagination(..)`.
#[derive(Debug, Default, FromMeta)]
struct PaginationKeys {
    default: Option<Opt>,
    max: Option<Opt>,
    unbounded_lookup: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

fn pagination(opt: &Opt, d: &mut Diagnostics) -> PaginationArgs {
    let options = opt
        .list("pagination(default = 20, max = 100)", d)
        .map(|list| options::read(list, d))
        .unwrap_or_default();
    let keys: PaginationKeys = options::table(options, &[], d);
    keys.rest.refuse(
        "pagination",
        &["default", "max", "unbounded_lookup"],
        &[],
        d,
    );
    PaginationArgs {
        default: keys
            .default
            .and_then(|opt| opt.expr("default = 20", d).cloned()),
        max: keys.max.and_then(|opt| opt.expr("max = 100", d).cloned()),
        unbounded_lookup: keys.unbounded_lookup.and_then(|opt| opt.boolean(d)),
    }
}

/// The keys of `version(..)`.
#[derive(Debug, Default, FromMeta)]
struct VersionKeys {
    field: Option<Opt>,
    required_on_write: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

fn version(opt: Opt, d: &mut Diagnostics) -> VersionArgs {
    let options = match &opt.value {
        OptValue::Flag => Vec::new(),
        _ => opt
            .list("version(field = rev)", d)
            .map(|list| options::read(list, d))
            .unwrap_or_default(),
    };
    let keys: VersionKeys = options::table(options, &[], d);
    keys.rest
        .refuse("version", &["field", "required_on_write"], &[], d);
    VersionArgs {
        key: opt.key,
        field: keys.field.and_then(|opt| opt.ident("field = rev", d)),
        required_on_write: keys
            .required_on_write
            .and_then(|opt| opt.boolean(d))
            .unwrap_or(true),
    }
}

/// Checks that the table of keys and the list for suggestions contain the same options.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_contain_exactly_the_keys_of_the_table() {
        let mut known = ENTITY_OPTIONS.to_vec();
        known.sort_unstable();
        assert_eq!(options::keys_of::<EntityKeys>(), known);
    }
}
