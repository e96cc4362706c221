//! The arguments of `package!` as written.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, LitStr, Path};

use crate::diagnostics::Diagnostics;
use crate::options::{self, Opt};
use crate::policy::middleware::{self, Middleware};

const OPTIONS: &[&str] = &[
    "name",
    "mount",
    "entities",
    "middleware",
    "audited",
    "dependencies",
    "after_adapters",
];

/// `name = .., mount = .., entities = [..], dependencies = [..]`.
#[derive(Debug)]
pub(super) struct PackageArgs {
    pub(super) krate: TokenStream,
    pub(super) name: String,
    pub(super) mount: String,
    pub(super) entities: Vec<EntityArgs>,
    pub(super) dependencies: Vec<LitStr>,
    pub(super) middleware: Vec<Middleware>,
    /// The actions of permissions that require `audit`.
    pub(super) audited: Vec<LitStr>,
    pub(super) after_adapters: Option<Path>,
}

/// `entity(Post, [PUBLISH, feed])`.
#[derive(Debug)]
pub(super) struct EntityArgs {
    pub(super) entity: Path,
    pub(super) items: Vec<Path>,
}

impl PackageArgs {
    pub(super) fn parse(tokens: TokenStream, d: &mut Diagnostics) -> Self {
        let options = options::parse(tokens, d);
        options::repeated(&options, &[], d);
        let mut args = Self {
            krate: quote!(::linchpin),
            name: String::new(),
            mount: "/".to_owned(),
            entities: Vec::new(),
            dependencies: Vec::new(),
            middleware: Vec::new(),
            audited: Vec::new(),
            after_adapters: None,
        };
        for opt in &options {
            match opt.name().as_str() {
                "name" => {
                    args.name = opt
                        .text("name = \"blog\"", d)
                        .map(|text| name(&text, d))
                        .unwrap_or_default();
                }
                "mount" => {
                    args.mount = opt
                        .text("mount = \"/api\"", d)
                        .map_or_else(|| "/".to_owned(), |text| mount(&text, d));
                }
                "entities" => {
                    args.entities = list(opt, "entities = [entity(Post, [PUBLISH])]", d)
                        .iter()
                        .filter_map(|e| entity(e, d))
                        .collect();
                }
                "audited" => {
                    let actions = list(opt, "audited = [\"lock\"]", d);
                    args.audited = actions.iter().filter_map(|e| action(e, d)).collect();
                    if actions.is_empty() {
                        d.error(&opt.key, "`audited` is empty")
                            .help("`audited = [\"lock\"]`");
                    }
                }
                "dependencies" => {
                    args.dependencies = list(opt, "dependencies = [\"auth\"]", d)
                        .iter()
                        .filter_map(|e| dependency(e, d))
                        .collect();
                }
                "middleware" => args.middleware = middleware::read(opt, d).unwrap_or_default(),
                "after_adapters" => args.after_adapters = opt.path("after_adapters = connect", d),
                "crate" => {
                    if let Some(path) = opt.path("crate = ::framework::linchpin", d) {
                        args.krate = quote!(#path);
                    }
                }
                _ => options::unknown(opt, "package", OPTIONS, &[], d),
            }
        }
        if options::lacks(&options, "name", OPTIONS) {
            d.error_at(proc_macro2::Span::call_site(), "the package has no name")
                .help("`name = \"blog\"`");
        }
        args
    }
}

fn name(text: &LitStr, d: &mut Diagnostics) -> String {
    let value = text.value();
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    if !value.starts_with(|c: char| c.is_ascii_lowercase()) || !value.bytes().all(plain) {
        d.error(text, format!("`{value}` is not a valid package name"))
            .help("lower-case letters, digits, `-` and `_`, a letter first");
    }
    value
}

fn mount(text: &LitStr, d: &mut Diagnostics) -> String {
    let value = text.value();
    if value.contains(['?', '#', '*', '{', '}', ':', '\\']) || value.contains(char::is_whitespace) {
        d.error(text, format!("`{value}` is not a valid mount"))
            .help("static segments: `mount = \"/api/v1\"`");
    }
    value
}

fn list(opt: &Opt, example: &str, d: &mut Diagnostics) -> Vec<Expr> {
    match opt.expr(example, d) {
        Some(Expr::Array(array)) => array.elems.iter().cloned().collect(),
        Some(other) => {
            d.error(other, format!("`{}` needs a list", opt.key))
                .help(format!("`{example}`"));
            Vec::new()
        }
        None => Vec::new(),
    }
}

fn dependency(expr: &Expr, d: &mut Diagnostics) -> Option<LitStr> {
    let text = options::as_text(expr).cloned();
    if text.is_none() {
        d.error(
            expr,
            "a dependency must be the name of a package or plugin, in quotes",
        )
        .help("`\"auth\"`");
    }
    text
}

fn action(expr: &Expr, d: &mut Diagnostics) -> Option<LitStr> {
    let text = options::as_text(expr).cloned();
    if text.is_none() {
        d.error(
            expr,
            "an action must be a text, as in `permission(requires = ..)`",
        )
        .help("`\"lock\"`");
    }
    text
}

fn entity(expr: &Expr, d: &mut Diagnostics) -> Option<EntityArgs> {
    const EXAMPLE: &str = "`entity(Post, [PUBLISH])`";
    if let Expr::Call(call) = expr
        && options::as_ident(&call.func).is_some_and(|f| f == "entity")
    {
        let mut arguments = call.args.iter();
        let Some(Expr::Path(entity)) = arguments.next() else {
            d.error(call, "the first argument of `entity(..)` must be an entity")
                .help(EXAMPLE);
            return None;
        };
        let items = match arguments.next() {
            None => Vec::new(),
            Some(Expr::Array(array)) => array
                .elems
                .iter()
                .filter_map(|item| path(item, d))
                .collect(),
            Some(other) => {
                d.error(other, "write the operations in a list")
                    .help(EXAMPLE);
                Vec::new()
            }
        };
        if let Some(more) = arguments.next() {
            d.error(more, "`entity(..)` takes an entity and one list")
                .help(EXAMPLE);
        }
        return Some(EntityArgs {
            entity: entity.path.clone(),
            items,
        });
    }
    d.error(expr, "expected an entity of the package")
        .help(EXAMPLE);
    None
}

fn path(expr: &Expr, d: &mut Diagnostics) -> Option<Path> {
    if let Expr::Path(path) = expr
        && path.qself.is_none()
    {
        return Some(path.path.clone());
    }
    d.error(
        expr,
        "expected the name of an operation or of a `#[route]` function",
    );
    None
}
