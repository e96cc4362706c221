//! Resolves sources and filters against the entity.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Ident, Path, parse_quote};

use super::filter::{Filter, Op, Operand};
use super::params::{Param, Params, Via};
use super::source::{CtxPath, Pair, Source};
use super::{Assumption, contradiction, literal, lower, rules};
use crate::diagnostics::Diagnostics;
use crate::entity::{EntityModel, Field, check_written};

/// The position of a parameter in an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Id,
    Segment,
    Query,
    Body,
}

/// The context in which the expressions of one operation are resolved.
pub(crate) struct Scope<'a> {
    pub(crate) model: &'a EntityModel,
    /// The entity, as named in the declaration.
    pub(crate) entity: &'a Path,
    pub(crate) params: Params,
    /// The other entities that the declaration names.
    pub(crate) siblings: &'a [Sibling],
    /// The sibling in which expressions are currently resolved.
    inside: Option<usize>,
    /// The type checks that only rustc can make.
    pub(crate) asserts: Vec<TokenStream>,
    /// The fields of the operation's own entity that the declaration names, as written.
    pub(crate) named: Vec<Ident>,
    /// The assigned fields without a value: some of them get a longer message.
    pub(crate) without_value: Vec<Ident>,
    /// The context values that plugins provide, each once.
    pub(crate) context: Vec<Path>,
    /// Whether callers read the records, so that the condition `visible` applies.
    pub(crate) for_callers: bool,
    pub(crate) d: &'a mut Diagnostics,
}

/// Another entity that a declaration names.
#[derive(Debug)]
pub(crate) struct Sibling {
    /// The path as written.
    pub(crate) path: Path,
    pub(crate) model: EntityModel,
}

/// A resolved source.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Param(usize),
    Ctx(CtxPath),
    Now,
    Null,
    /// A closure that creates the value, and the expression for comparisons.
    Literal(TokenStream, Box<Expr>),
}

/// A resolved `field = source`.
#[derive(Debug, Clone)]
pub(crate) struct Assign {
    pub(crate) key: Ident,
    pub(crate) field: usize,
    pub(crate) value: Value,
}

/// A resolved filter.
#[derive(Debug, Clone)]
pub(crate) enum Resolved {
    All(Vec<Resolved>),
    Any(Vec<Resolved>),
    Cond(Cond),
}

/// A resolved condition.
#[derive(Debug, Clone)]
pub(crate) struct Cond {
    /// The field as written.
    pub(crate) ident: Ident,
    pub(crate) field: usize,
    pub(crate) op: Op,
    pub(crate) values: Vec<Value>,
    /// Whether `values` is a list; otherwise it contains one value.
    pub(crate) list: bool,
}

/// The use of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The value selects the record to change.
    Match,
    /// The value is written.
    Write,
    /// The value is written when the record is created.
    Create,
    /// The value comes from the body and is written.
    Body { required: bool, nullable: bool },
    /// The value is an element of the field, which is a list of strings.
    Element,
    /// The field is compared with the value. `required` is whether a parameter is mandatory.
    Compare { op: Op, required: bool },
}

impl<'a> Scope<'a> {
    pub(crate) fn new(
        model: &'a EntityModel,
        entity: &'a Path,
        siblings: &'a [Sibling],
        d: &'a mut Diagnostics,
    ) -> Self {
        Self {
            model,
            entity,
            params: Params::default(),
            siblings,
            inside: None,
            asserts: Vec::new(),
            named: Vec::new(),
            without_value: Vec::new(),
            context: Vec::new(),
            for_callers: true,
            d,
        }
    }

    /// Resolves expressions on the fields of another entity; `None` is the operation's own entity.
    pub(crate) fn within<T>(
        &mut self,
        sibling: Option<usize>,
        resolve: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let previous = (self.model, self.entity, self.inside);
        if let Some((index, sibling)) =
            sibling.and_then(|index| Some((index, self.siblings.get(index)?)))
        {
            (self.model, self.entity, self.inside) = (&sibling.model, &sibling.path, Some(index));
        }
        let done = resolve(self);
        (self.model, self.entity, self.inside) = previous;
        done
    }

    /// Returns the position of the sibling that a path names; `None` for the operation's own
    /// entity.
    pub(crate) fn sibling_named(&self, path: &Path) -> Option<usize> {
        let text = path.to_token_stream().to_string();
        self.siblings
            .iter()
            .position(|sibling| sibling.path.to_token_stream().to_string() == text)
    }

    /// Returns the field with this name. An unknown name is reported.
    pub(crate) fn field(&mut self, ident: &Ident) -> Option<usize> {
        let found = self.model.index_of(ident);
        match found {
            Some(_) if self.inside.is_none() => self.named.push(ident.clone()),
            Some(_) => {}
            None => {
                let name = ident.unraw().to_string();
                self.d
                    .error(
                        ident,
                        format!("unknown field `{name}` on {}", self.model.name),
                    )
                    .suggest(&name, self.model.field_names());
            }
        }
        found
    }

    /// Returns the field at a position.
    pub(crate) fn at(&self, field: usize) -> &'a Field {
        &self.model.fields[field]
    }

    /// Adds a const check that a field of unknown type has the kind that a part of the operation
    /// needs. `kinds` is the name of a set of kinds in the runtime's `checks`, which also contains
    /// the message.
    pub(crate) fn needs(&mut self, field: usize, at: &dyn ToTokens, kinds: &str, what: &str) {
        let at = at.to_token_stream();
        let (position, kinds, name) = (
            lower::position(self, field, &at),
            quote::format_ident!("{kinds}"),
            &self.at(field).name,
        );
        self.asserts.push(lower::at(
            quote!(const _: () = __lp::need::<#position>(__lp::#kinds, #what, #name);),
            &at,
        ));
    }

    /// Adds the same check with another message.
    pub(crate) fn require(&mut self, field: usize, at: &dyn ToTokens, kinds: &str, message: &str) {
        let at = at.to_token_stream();
        let position = lower::position(self, field, &at);
        let kinds = quote::format_ident!("{kinds}");
        let message = format!("linchpin: {message}");
        let check = quote!(const _: () = __lp::expect_kind(__lp::kind::<#position>(), __lp::#kinds, #message););
        self.asserts.push(lower::at(check, &at));
    }

    /// Adds a context value, and a const check that it has the field's type.
    pub(super) fn add_context_value(&mut self, field: usize, path: &Path) {
        let at = path.to_token_stream();
        let (marker, name) = (lower::marker(self, field, &at), &self.at(field).name);
        // The path has the same tokens and spans as in the descriptor, so that rustc reports an
        // error in it only once.
        let check = quote_spanned!(path.span()=> const _: () = __lp::expect_context::<#marker>(<#path as __lp::ContextValue>::DESC, #name););
        self.asserts.push(check);
        if !self.context.contains(path) {
            self.context.push(path.clone());
        }
    }

    /// Adds a const check that the items of a list have a member that identifies them.
    pub(crate) fn check_item_key(&mut self, list: usize, at: &Ident, wire: &str, name: &str) {
        let at = at.to_token_stream();
        let marker = lower::marker(self, list, &at);
        let message = format!(
            "linchpin: items of `{}` have no string or integer field `{name}`",
            self.at(list).name
        );
        self.asserts.push(lower::at(
            quote!(const _: () = __lp::expect_key::<#marker>(#wire, #message);),
            &at,
        ));
    }

    /// Resolves `field = source, ..`.
    pub(crate) fn assigns(
        &mut self,
        pairs: &[Pair],
        role: impl Fn(&Source) -> Role,
    ) -> Vec<Assign> {
        let mut assigns = Vec::new();
        for pair in pairs {
            let field = self.field(&pair.key);
            let Some(value) = &pair.value else {
                let Some(field) = field else { continue };
                if role(&Source::Param(pair.key.clone())) == Role::Write {
                    self.without_value.push(pair.key.clone());
                    assigns.push(Assign {
                        key: pair.key.clone(),
                        field,
                        value: Value::Null,
                    });
                } else {
                    self.report_missing_value(&pair.key);
                }
                continue;
            };
            let source = Source::parse(value, self.d);
            let (Some(field), Some(source)) = (field, source) else {
                continue;
            };
            if let Some(value) = self.value(&source, field, &pair.key, role(&source)) {
                assigns.push(Assign {
                    key: pair.key.clone(),
                    field,
                    value,
                });
            }
        }
        assigns
    }

    /// Returns the name if the expression is a field. A name in upper case is a const.
    fn own_field<'e>(&self, expr: &'e Expr) -> Option<&'e Ident> {
        let name = crate::options::as_ident(expr)?;
        let upper = name.to_string().chars().any(char::is_uppercase);
        (!upper && self.model.index_of(name).is_some()).then_some(name)
    }

    /// Reports that a field needs a value.
    pub(crate) fn report_missing_value(&mut self, key: &Ident) {
        self.d
            .error(key, format!("`{key}` needs a value"))
            .help(format!("`{key} = param({key})`"));
    }

    /// Resolves a source for a field that the declaration names at `ident`.
    pub(crate) fn value(
        &mut self,
        source: &Source,
        field: usize,
        ident: &Ident,
        role: Role,
    ) -> Option<Value> {
        match source {
            Source::Param(name) => self.param(name, Via::Param, field, role, false, None),
            Source::Defaulted(name, default) => {
                // The default must be a value that the parameter accepts.
                let value = self.value(default, field, ident, role)?;
                self.param(
                    name,
                    Via::Param,
                    field,
                    role,
                    false,
                    Some((value, default.tokens().to_string())),
                )
            }
            Source::Input(name) => self.param(name, Via::Input, field, role, false, None),
            Source::Ctx(path, at) => {
                rules::ctx(self, path, field, at).then(|| Value::Ctx(path.clone()))
            }
            Source::NewId(name, at) => rules::new_id(self, name, field, at, role),
            Source::Now(at) => rules::now(self, field, at).then_some(Value::Now),
            Source::Null(at) => rules::null(self, field, at, role).then_some(Value::Null),
            Source::Literal(expr) if let Some(other) = self.own_field(expr) => {
                let (key, other) = (ident.unraw(), other.unraw());
                let (text, help) = match role {
                    _ if key == other => (
                        format!("`{key}` cannot be its own value"),
                        format!("`{key} = param({key})`"),
                    ),
                    Role::Write | Role::Create | Role::Body { .. } | Role::Element => (
                        format!("`{other}` is a field, and a value cannot come from a field"),
                        format!(
                            "a literal, `now()` or a parameter; or `computed` on `{key}`, so that its value is computed from `{other}`"
                        ),
                    ),
                    Role::Match | Role::Compare { .. } => (
                        format!("`{key}` is compared with another field, `{other}`"),
                        "a literal, `now()` or a parameter; or a `computed` field with the result \
                         of the comparison"
                            .to_owned(),
                    ),
                };
                self.d.error(expr, text).help(help);
                None
            }
            Source::Literal(expr)
                if role == Role::Write && self.model.visibility.marks_deleted(field, expr) =>
            {
                self.d
                    .error(
                        expr,
                        format!(
                            "this value of `{}` marks deleted records",
                            self.at(field).name
                        ),
                    )
                    .help("use delete instead");
                None
            }
            Source::Literal(expr) => {
                if let Role::Write | Role::Create | Role::Body { .. } = role {
                    check_written(self.at(field), expr, false, self.d);
                }
                literal::closure(self, field, ident, expr, role)
            }
        }
    }

    fn param(
        &mut self,
        name: &Ident,
        via: Via,
        field: usize,
        role: Role,
        list: bool,
        default: Option<(Value, String)>,
    ) -> Option<Value> {
        let of = self.at(field);
        let mut param = Param::new(name, via, field);
        param.default = default;
        if param.name.is_empty() {
            self.d
                .error(name, format!("`{name}` is not a valid parameter name"));
            return None;
        }
        param.list = list;
        param.owner = self.inside;
        match role {
            Role::Match => {}
            Role::Body { required, nullable } => {
                param.required = required;
                param.nullable = nullable;
            }
            Role::Element => param.element = true,
            Role::Write | Role::Create => {
                param.required = !of.optional && !of.has_default();
                param.nullable = of.optional;
            }
            Role::Compare { op, required } => {
                param.required = required;
                param.element = op == Op::Has;
                param.nullable = of.optional && !list && !matches!(op, Op::Contains | Op::Has);
            }
        }
        self.params.add(param, self.model, self.d).map(Value::Param)
    }

    /// Resolves a filter. The parameters in `optional` may be omitted.
    pub(crate) fn filter(&mut self, filter: &Filter, optional: &[String]) -> Option<Resolved> {
        self.filter_with(filter, optional, Vec::new())
    }

    /// Resolves a filter under assumptions: conditions that all its records satisfy.
    pub(crate) fn filter_with(
        &mut self,
        filter: &Filter,
        optional: &[String],
        mut assumptions: Vec<Assumption>,
    ) -> Option<Resolved> {
        let resolved = self.tree(filter, optional)?;
        assumptions.extend(self.visible());
        contradiction::check(self, "the filter", &resolved, &assumptions);
        Some(resolved)
    }

    /// Returns the condition `visible` of the operation's own entity, as an assumption about the
    /// records that callers reach.
    pub(crate) fn visible(&self) -> Option<Assumption> {
        let visible = self
            .model
            .gates
            .visible()
            .filter(|_| self.for_callers && self.inside.is_none())?;
        let mut ignored = Diagnostics::new();
        let filter = Filter::parse(visible, &mut ignored);
        let resolved = filter.and_then(|filter| {
            Scope::new(self.model, self.entity, &[], &mut ignored).tree(&filter, &[])
        });
        // The macro of the entity reports errors in its condition.
        ignored.ignore();
        resolved.map(|resolved| {
            Assumption::new(format!("`visible` of `{}`", self.model.name), resolved)
        })
    }

    fn tree(&mut self, filter: &Filter, optional: &[String]) -> Option<Resolved> {
        let each = |scope: &mut Self, list: &[Filter]| {
            let list: Vec<Option<Resolved>> =
                list.iter().map(|f| scope.tree(f, optional)).collect();
            list.into_iter().collect::<Option<Vec<_>>>()
        };
        match filter {
            Filter::All(list) => each(self, list).map(Resolved::All),
            Filter::Any(list) => each(self, list).map(Resolved::Any),
            Filter::Cond {
                field,
                op,
                at,
                operand,
            } => self
                .cond(field, *op, at, operand, optional)
                .map(Resolved::Cond),
        }
    }

    fn cond(
        &mut self,
        ident: &Ident,
        op: Op,
        at: &TokenStream,
        operand: &Operand,
        optional: &[String],
    ) -> Option<Cond> {
        let field = self.field(ident)?;
        rules::operator(self, field, op, at, operand)?;
        let required = |source: &Source| match source {
            Source::Param(name) => {
                !optional.contains(&crate::names::snake(&name.unraw().to_string()))
            }
            _ => true,
        };
        let one = |scope: &mut Self, source: &Source| {
            scope.value(
                source,
                field,
                ident,
                Role::Compare {
                    op,
                    required: required(source),
                },
            )
        };
        let values = match operand {
            Operand::One(source) => vec![one(self, source)?],
            Operand::List(sources) => {
                let values: Vec<Option<Value>> =
                    sources.iter().map(|source| one(self, source)).collect();
                values.into_iter().collect::<Option<_>>()?
            }
            Operand::ListOf(source) => {
                let role = Role::Compare {
                    op,
                    required: required(source),
                };
                vec![match source {
                    Source::Input(name) => self.param(name, Via::Input, field, role, true, None)?,
                    Source::Param(name) => self.param(name, Via::Param, field, role, true, None)?,
                    _ => return None,
                }]
            }
            Operand::Bool(value) => {
                let literal =
                    lower::literal(self, field, &ident.to_token_stream(), &quote!(#value));
                vec![Value::Literal(literal, Box::new(parse_quote!(#value)))]
            }
        };
        Some(Cond {
            ident: ident.clone(),
            field,
            op,
            values,
            list: matches!(operand, Operand::List(_)),
        })
    }
}
