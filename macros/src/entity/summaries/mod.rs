//! `counter(..)`: counters in records of other entities that count an entity's records. From the
//! syntax to the descriptor.

mod check;
mod tokens;

use darling::FromMeta;
use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, LitStr, Path, Token};

use super::field::{COMPUTED, Field};
use super::model::EntityModel;
use crate::diagnostics::Diagnostics;
use crate::expr::{Filter, Resolved, Scope, check_when_sources};
use crate::options::{self, Opt, Rest};

pub(crate) use check::check;
pub(crate) use tokens::{assertions, descriptor};

const EXAMPLE: &str = "counter(Thread.reply_count, by = thread_id)";

/// A counter as written.
#[derive(Debug)]
pub(crate) struct SummaryArgs {
    /// The word `counter`.
    word: Ident,
    target: Path,
    field: Ident,
    by: Option<Ident>,
    when: Option<Expr>,
    min: Option<Expr>,
    code: Option<LitStr>,
}

/// A counter, resolved against the fields of the entity.
#[derive(Debug)]
pub(crate) struct Summary {
    word: Ident,
    target: Path,
    /// The field of the other entity that stores the counter.
    field: Ident,
    /// The field with the key of the other record, as written.
    key: Ident,
    /// The position of this field in the entity.
    by: usize,
    when: Option<Expr>,
    min: Option<Expr>,
    code: Option<LitStr>,
}

/// The arguments of `counter`: `Thread.reply_count` and the options.
struct Head {
    target: Path,
    field: Ident,
    rest: TokenStream,
}

impl Parse for Head {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let target = input.call(Path::parse_mod_style)?;
        input.parse::<Token![.]>()?;
        let field = input.call(Ident::parse_any)?;
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
        Ok(Self {
            target,
            field,
            rest: input.parse()?,
        })
    }
}

/// The keys of `counter(..)`.
#[derive(Debug, Default, FromMeta)]
struct Keys {
    by: Option<Opt>,
    when: Option<Opt>,
    min: Option<Opt>,
    code: Option<Opt>,
    #[darling(flatten)]
    rest: Rest,
}

impl SummaryArgs {
    /// `counter(Thread.reply_count, by = thread_id, when(status == Status::Live), min = 1, code =
    /// "last_one")`.
    pub(crate) fn counter(opt: &Opt, d: &mut Diagnostics) -> Option<Self> {
        let list = opt.list(EXAMPLE, d)?;
        let Head {
            target,
            field,
            rest,
        } = match list.parse() {
            Ok(head) => head,
            Err(error) => {
                d.error_at(
                    error.span(),
                    format!("`counter` must begin with an entity and its field: {error}"),
                )
                .help(format!("`{EXAMPLE}`"));
                return None;
            }
        };
        let keys: Keys = options::table(options::read(list.with(rest), d), &[], d);
        keys.rest
            .refuse("counter", &["by", "when", "min", "code"], &[], d);
        // A misspelt key has been reported.
        let misspelt = keys
            .rest
            .0
            .iter()
            .any(|opt| crate::diagnostics::nearest(&opt.name(), ["by"]).is_some());
        if keys.by.is_none() && !misspelt {
            d.error(&opt.key, "`counter` needs `by`")
                .help(format!("`{EXAMPLE}`"));
        }
        let when = keys.when.and_then(|opt| {
            let list = opt.list("when(status == Status::Live)", d)?;
            if list.is_empty() {
                d.error(&opt.key, "`when` is empty")
                    .help("remove `when` to count every record");
                return None;
            }
            d.take(list.parse())
        });
        Some(Self {
            word: opt.key.clone(),
            target,
            field,
            by: keys.by.and_then(|opt| opt.ident("by = thread_id", d)),
            when,
            min: keys.min.and_then(|opt| opt.expr("min = 1", d).cloned()),
            code: keys.code.and_then(|opt| opt.text("code = \"last_one\"", d)),
        })
    }
}

impl Summary {
    /// Resolves a counter. Returns `None` after an error in its key, which has been reported.
    pub(crate) fn resolve(
        args: SummaryArgs,
        fields: &[Field],
        d: &mut Diagnostics,
    ) -> Option<Self> {
        let SummaryArgs {
            word,
            target,
            field,
            by,
            when,
            min,
            code,
        } = args;
        let key = by?;
        let text = key.unraw().to_string();
        let Some(by) = fields.iter().position(|f| f.name == text) else {
            d.error(&key, format!("unknown field `{text}` in {word}"))
                .suggest(&text, fields.iter().map(|f| f.name.as_str()));
            return None;
        };
        if is_computed(&fields[by]) {
            report_computed(&key, d);
            return None;
        }
        Some(Self {
            word,
            target,
            field,
            key,
            by,
            when,
            min,
            code,
        })
    }

    /// The fields of this entity that the option names, as written: the field with the key of the
    /// other record, and the fields of the condition.
    pub(crate) fn named_fields(&self) -> impl Iterator<Item = Ident> {
        std::iter::once(self.key.clone()).chain(self.when.iter().flat_map(Filter::named_fields))
    }

    /// Returns the position of the key.
    pub(crate) fn own_key(&self) -> usize {
        self.by
    }
}

/// Returns the condition under which a record is counted, and the checks that only rustc can make.
fn counting_condition(
    model: &EntityModel,
    expr: &Expr,
    d: &mut Diagnostics,
) -> Option<(Resolved, Vec<TokenStream>)> {
    let filter = Filter::parse(expr, d)?;
    let before = d.len();
    refuse_computed(&filter, model, d);
    check_when_sources(&filter, d);
    if d.len() > before {
        return None;
    }
    let entity = Path::from(model.ident.clone());
    let mut scope = Scope::new(model, &entity, &[], d);
    scope.for_callers = false;
    let resolved = scope.filter(&filter, &[])?;
    let asserts = std::mem::take(&mut scope.asserts);
    Some((resolved, asserts))
}

fn is_computed(field: &Field) -> bool {
    field.server_only_reason == Some(COMPUTED)
}

/// Reports a computed field that is the key of a counter or is used in its condition.
fn report_computed(field: &Ident, d: &mut Diagnostics) {
    d.error(
        field,
        format!(
            "a counter cannot use the computed field `{}`",
            field.unraw()
        ),
    )
    .help("use the fields that it is computed from");
}

/// Reports computed fields in the condition. A statement changes a counter if it writes a field of
/// the condition, and no statement writes a computed field directly.
fn refuse_computed(filter: &Filter, model: &EntityModel, d: &mut Diagnostics) {
    match filter {
        Filter::Cond { field, .. } => {
            let is = |f: &Field| field.unraw() == f.name && is_computed(f);
            if model.fields.iter().any(is) {
                report_computed(field, d);
            }
        }
        Filter::All(list) | Filter::Any(list) => {
            for one in list {
                refuse_computed(one, model, d);
            }
        }
    }
}
