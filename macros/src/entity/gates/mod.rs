//! Visibility by conditions and through other records: `visible(..)`, `gate(..)` and `action(..)`,
//! from their syntax to the descriptor.

mod check;
mod tokens;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, LitStr, Path, Token};

use super::field::Field;
use super::model::EntityModel;
use crate::diagnostics::Diagnostics;
use crate::expr::{Filter, MIN_VARIANTS, Resolved, Scope, refuse_always};
use crate::options::{self, Opt};

pub(crate) use check::check;
pub(crate) use tokens::{assertions, descriptor, links};

/// The maximum number of links from a record to a record that decides its visibility.
pub(crate) const MAX_LINKS: i64 = 8;

/// The options as written.
#[derive(Debug, Default)]
pub(crate) struct GatesArgs {
    gates: Vec<GateArgs>,
    visible: Option<Expr>,
    actions: Vec<Action>,
}

/// `gate(container_id -> Container, "read", depth = 3)`.
#[derive(Debug)]
struct GateArgs {
    /// The word `gate`.
    word: Ident,
    field: Ident,
    target: Path,
    action: Option<LitStr>,
    depth: Option<Expr>,
}

/// `action("read", is_private == false)`.
#[derive(Debug)]
pub(crate) struct Action {
    name: LitStr,
    filter: Expr,
}

/// The gates and conditions that decide visibility, in addition to deletion, expiry, tenant and
/// scopes.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    all: Vec<Gate>,
    visible: Option<Expr>,
    actions: Vec<Action>,
}

/// A gate, resolved against the fields of the entity.
#[derive(Debug)]
struct Gate {
    word: Ident,
    /// The field as written.
    key: Ident,
    field: usize,
    target: Path,
    action: Option<LitStr>,
    depth: Option<Expr>,
}

/// The arguments of `gate`: `container_id -> Container`, the action and the other options.
struct Head {
    field: Ident,
    target: Path,
    action: Option<LitStr>,
    rest: TokenStream,
}

impl Parse for Head {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let field = input.call(Ident::parse_any)?;
        input.parse::<Token![->]>()?;
        let target = input.call(Path::parse_mod_style)?;
        let mut action = None;
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.peek(LitStr) {
                action = Some(input.parse()?);
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
        }
        Ok(Self {
            field,
            target,
            action,
            rest: input.parse()?,
        })
    }
}

impl Parse for Action {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![,]>()?;
        let filter = input.parse()?;
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
        Ok(Self { name, filter })
    }
}

impl GatesArgs {
    pub(crate) fn read(
        gates: &[Opt],
        visible: Option<&Opt>,
        actions: &[Opt],
        d: &mut Diagnostics,
    ) -> Self {
        Self {
            gates: gates.iter().filter_map(|opt| gate(opt, d)).collect(),
            visible: visible.and_then(|opt| self::visible(opt, d)),
            actions: actions.iter().filter_map(|opt| action(opt, d)).collect(),
        }
    }
}

fn gate(opt: &Opt, d: &mut Diagnostics) -> Option<GateArgs> {
    const EXAMPLE: &str = "gate(container_id -> Container)";
    let list = opt.list(EXAMPLE, d)?;
    let Head {
        field,
        target,
        action,
        rest,
    } = match list.parse() {
        Ok(head) => head,
        Err(error) => {
            d.error_at(
                error.span(),
                format!("`gate` must have the form `field -> Entity`: {error}"),
            )
            .help(format!("`{EXAMPLE}`"));
            return None;
        }
    };
    let mut depth = None;
    let options = options::parse(list.with(rest), d);
    options::repeated(&options, &[], d);
    for option in &options {
        if option.name() == "depth" {
            depth = option.expr("depth = 3", d).cloned();
        } else {
            let name = option.name();
            d.error(&option.key, format!("unknown gate option `{name}`"))
                .suggest(&name, ["depth"]);
        }
    }
    Some(GateArgs {
        word: opt.key.clone(),
        field,
        target,
        action,
        depth,
    })
}

fn visible(opt: &Opt, d: &mut Diagnostics) -> Option<Expr> {
    const EXAMPLE: &str = "visible(status == Status::Published)";
    let mut all = options::each::<Expr>(opt.list(EXAMPLE, d)?, d).into_iter();
    let first = all.next();
    match (&first, all.next()) {
        // An error in the list has been reported.
        (None, _) if !opt.is_empty_list() => {}
        (None, _) => d
            .error(&opt.key, "`visible` is empty")
            .help(format!("`{EXAMPLE}`")),
        (Some(_), Some(second)) => d
            .error(&second, "`visible` takes one condition")
            .help("join conditions by `&&` or `||`"),
        (Some(_), None) => return first,
    }
    None
}

fn action(opt: &Opt, d: &mut Diagnostics) -> Option<Action> {
    const EXAMPLE: &str = "action(\"read\", is_private == false)";
    let action = match opt.list(EXAMPLE, d)?.parse::<Action>() {
        Ok(action) => action,
        Err(error) => {
            d.error_at(
                error.span(),
                format!("`action` needs a name and a condition: {error}"),
            )
            .help(format!("`{EXAMPLE}`"));
            return None;
        }
    };
    if action.name.value().trim().is_empty() {
        d.error(&action.name, "the action has no name")
            .help(format!("`{EXAMPLE}`"));
        return None;
    }
    Some(action)
}

impl Gates {
    /// Returns the condition under which callers see a record.
    pub(crate) fn visible(&self) -> Option<&Expr> {
        self.visible.as_ref()
    }

    /// Whether a field is the key of a gate, so that it can only hold the id of a visible record.
    pub(crate) fn restricts_to_visible(&self, field: usize) -> bool {
        self.all.iter().any(|gate| gate.field == field)
    }

    /// The fields of all gates and conditions, as written.
    pub(crate) fn named_fields(&self) -> impl Iterator<Item = Ident> {
        let filters = self
            .visible
            .iter()
            .chain(self.actions.iter().map(|action| &action.filter));
        self.all
            .iter()
            .map(|gate| gate.key.clone())
            .chain(filters.flat_map(Filter::named_fields))
    }

    /// Resolves the options. An option with an error is reported and left out.
    pub(crate) fn resolve(args: GatesArgs, fields: &[Field], d: &mut Diagnostics) -> Self {
        let gates = args.gates.into_iter().filter_map(
            |GateArgs {
                 word,
                 field: key,
                 target,
                 action,
                 depth,
             }| {
                let name = key.unraw().to_string();
                let found = fields.iter().position(|f| f.name == name);
                if found.is_none() {
                    d.error(&key, format!("unknown field `{name}` in gate"))
                        .suggest(&name, fields.iter().map(|f| f.name.as_str()));
                }
                Some(Gate {
                    word,
                    key,
                    field: found?,
                    target,
                    action,
                    depth,
                })
            },
        );
        Self {
            all: gates.collect(),
            visible: args.visible,
            actions: args.actions,
        }
    }
}

impl Gate {
    /// Whether the path of the gate is the name of the entity itself, or `Self`.
    fn is_tree(&self, model: &EntityModel) -> bool {
        self.target.is_ident(&model.ident) || self.target.is_ident("Self")
    }

    /// The name of the other entity, for messages.
    fn target_name(&self) -> String {
        self.target.to_token_stream().to_string().replace(' ', "")
    }
}

/// Resolves a condition of the entity itself: on its fields, the context, the time of the call and
/// literals. Returns it with the checks that only rustc can make.
fn condition(
    model: &EntityModel,
    expr: &Expr,
    what: &str,
    d: &mut Diagnostics,
) -> Option<(Resolved, Vec<TokenStream>)> {
    let filter = Filter::parse(expr, d)?;
    let entity = Path::from(model.ident.clone());
    let mut scope = Scope::new(model, &entity, &[], d);
    scope.for_callers = false;
    let resolved = scope.filter(&filter, &[]);
    if let Some(resolved) = &resolved {
        let text = format!("`{what}` matches every record, so it restricts nothing");
        refuse_always(&mut scope, resolved, &[], MIN_VARIANTS, expr, &text);
    }
    let (params, asserts) = (
        std::mem::take(&mut scope.params),
        std::mem::take(&mut scope.asserts),
    );
    for param in params.iter() {
        let message = format!(
            "`{what}` applies to all routes, so it cannot use the parameter `{}`",
            param.name
        );
        d.error(&param.ident, message)
            .help("`ctx(..)`, `now()`, or a literal");
    }
    resolved
        .filter(|_| params.iter().next().is_none())
        .map(|resolved| (resolved, asserts))
}
