//! A field of an entity or of an item: its declaration, and properties derived from it.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::{Attribute, Expr, ExprLit, Ident, Lit, LitStr, Meta, Type, Visibility};

use super::parse_field::FieldArgs;
use crate::diagnostics::Diagnostics;
use crate::names;

pub(crate) use super::parse_field::{Default, Flag};

/// The reason why only the server writes a computed field.
pub(crate) const COMPUTED: &str = "is computed";

/// A field as declared.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) ident: Ident,
    /// The identifier without `r#`.
    pub(crate) name: String,
    /// `createdAt`.
    pub(crate) wire: String,
    /// `created_at`, or the text of `column = ".."`.
    pub(crate) column: String,
    pub(crate) vis: Visibility,
    /// The type as written.
    pub(crate) ty: Type,
    /// `T` of `Option<T>`, else the type itself.
    pub(crate) inner: Type,
    pub(crate) optional: bool,
    pub(crate) kind: Kind,
    pub(crate) doc: String,
    /// All attributes except those of Linchpin.
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) options: FieldArgs,
    /// The line of the declaration in the source; 0 if it is unknown.
    pub(crate) line: u32,
    /// Whether it is the version counter, which the macro adds to the struct.
    pub(crate) generated: bool,
    /// If only the server writes the field: the reason, for messages.
    pub(crate) server_only_reason: Option<&'static str>,
}

/// The type as far as its tokens show it. [`Kind::Other`] stands for all other types: enums,
/// aliases and types that no field can have. Only rustc can tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Uuid,
    Boolean,
    Integer,
    Number,
    Date,
    StringArray,
    Json,
    Items,
    Other,
}

impl Field {
    pub(crate) fn parse(field: &mut syn::Field, d: &mut Diagnostics) -> Self {
        let options = FieldArgs::take(&mut field.attrs, d);
        // Attributes with a reported error are removed, so that they cause no second error.
        field.attrs.retain(|attr| {
            let conditional = is_conditional(attr);
            if conditional {
                d.error(
                    attr,
                    "a field cannot depend on `cfg`: builds would have different schemas",
                )
                .help("declare it in every build");
            }
            !conditional
        });
        // Named fields have an identifier; tuple structs are refused earlier.
        let ident = field
            .ident
            .clone()
            .unwrap_or_else(|| Ident::new("_0", Span::call_site()));
        let name = ident.unraw().to_string();
        let (inner, optional) =
            option_of(&field.ty).map_or((field.ty.clone(), false), |inner| (inner.clone(), true));
        Self {
            wire: names::camel(&name),
            column: options
                .column
                .as_ref()
                .map_or_else(|| names::snake(&name), LitStr::value),
            vis: field.vis.clone(),
            ty: field.ty.clone(),
            kind: Kind::of(&inner),
            inner,
            optional,
            doc: doc_of(&field.attrs),
            attrs: field.attrs.clone(),
            line: line_of(ident.span()),
            generated: false,
            server_only_reason: options.computed.as_ref().map(|_| COMPUTED),
            options,
            name,
            ident,
        }
    }

    /// The counter that `version` adds to the struct.
    pub(crate) fn version(ident: Ident) -> Self {
        let name = ident.unraw().to_string();
        let ty: Type = syn::parse_quote!(i64);
        Self {
            wire: names::camel(&name),
            column: names::snake(&name),
            vis: syn::parse_quote!(pub),
            inner: ty.clone(),
            ty,
            optional: false,
            kind: Kind::Integer,
            doc: String::new(),
            attrs: Vec::new(),
            options: FieldArgs::default(),
            line: 0,
            generated: true,
            server_only_reason: None,
            name,
            ident,
        }
    }

    /// Whether the option is set.
    pub(crate) fn has(&self, flag: Flag) -> bool {
        self.options.flag(flag).is_some()
    }

    /// Whether a response may contain it.
    pub(crate) fn readable(&self) -> bool {
        !self.has(Flag::Private) && !self.has(Flag::WriteOnly)
    }

    /// Whether no client may write it.
    pub(crate) fn server_owned(&self) -> bool {
        self.generated
            || self.server_only_reason.is_some()
            || self.has(Flag::ReadOnly)
            || self.options.on_update.is_some()
            || (self.options.default.is_generated() && !self.has(Flag::ClientSet))
    }

    /// Whether only code of the app writes it: it is `read_only`, and neither the macro nor a
    /// default generates its value.
    pub(crate) fn code_writes(&self) -> bool {
        let made = self.generated
            || self.server_only_reason.is_some()
            || self.options.on_update.is_some()
            || self.options.default.is_generated();
        self.has(Flag::ReadOnly) && !made
    }

    /// Whether its value comes from the caller: it is the tenant or a scope of the record.
    pub(crate) fn comes_from_caller(&self) -> bool {
        self.server_only_reason
            .is_some_and(|owner| owner != super::visibility::MARK && owner != COMPUTED)
    }

    /// Whether its value never changes.
    pub(crate) fn immutable(&self) -> bool {
        self.has(Flag::Immutable)
            || self.has(Flag::Primary)
            || matches!(self.options.default, Default::Ctx(..))
    }

    /// Whether omitting it on create selects a default: a declared one, or the empty list.
    pub(crate) fn has_default(&self) -> bool {
        self.options.default.is_some()
            || (!self.optional && self.kind.is_list() && !self.has(Flag::Required))
    }
}

impl Kind {
    /// Determines the kind from the last segment of the type's path.
    pub(crate) fn of(ty: &Type) -> Self {
        let Type::Path(path) = strip(ty) else {
            return Self::Other;
        };
        let Some(last) = path.path.segments.last() else {
            return Self::Other;
        };
        match last.ident.to_string().as_str() {
            "String" => Self::String,
            "Uuid" => Self::Uuid,
            "bool" => Self::Boolean,
            "i64" => Self::Integer,
            "f64" => Self::Number,
            "Timestamp" => Self::Date,
            // `Json` without type arguments, or `Value` without `serde_json::`, may be another
            // type.
            "Json" if !last.arguments.is_none() => Self::Json,
            "Value"
                if path
                    .path
                    .segments
                    .iter()
                    .rev()
                    .nth(1)
                    .is_some_and(|before| before.ident == "serde_json") =>
            {
                Self::Json
            }
            "Vec" => match argument(last).map(Self::of) {
                Some(Self::String) => Self::StringArray,
                _ => Self::Items,
            },
            _ => Self::Other,
        }
    }

    /// The name of the type in messages; `None` if only rustc knows it.
    pub(crate) fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::String | Self::Uuid => "string",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Date => "date",
            Self::StringArray => "string_array",
            Self::Json => "json",
            Self::Items => "items",
            Self::Other => return None,
        })
    }

    /// Whether it may be text: text itself, or a type that only rustc knows.
    pub(crate) fn may_be_text(self) -> bool {
        matches!(self, Self::String | Self::Uuid | Self::Other)
    }

    /// Whether it is one value that can be compared and sorted: no list and no JSON. It is true for
    /// unknown types; rustc decides.
    pub(crate) fn is_scalar(self) -> bool {
        !matches!(self, Self::StringArray | Self::Json | Self::Items)
    }

    /// Whether an omitted value means the empty list.
    pub(crate) fn is_list(self) -> bool {
        matches!(self, Self::StringArray | Self::Items)
    }

    /// Whether it can never be filterable, sortable or unique.
    pub(crate) fn is_opaque(self) -> bool {
        matches!(self, Self::Json | Self::Items)
    }
}

/// Returns the line of a token in the source. It is 0 in unit tests, which run outside of a
/// compiler.
fn line_of(span: Span) -> u32 {
    if !proc_macro::is_available() {
        return 0;
    }
    u32::try_from(span.unwrap().line()).unwrap_or(0)
}

/// Whether an attribute is `cfg`, or a `cfg_attr` that contains `field`, `cfg` or `cfg_attr`. Other
/// attributes in a `cfg_attr` have no effect on the entity.
fn is_conditional(attr: &Attribute) -> bool {
    let is_refused_word = |token: proc_macro2::TokenTree| matches!(token, proc_macro2::TokenTree::Ident(word) if ["field", "cfg", "cfg_attr"].contains(&word.to_string().as_str()));
    match &attr.meta {
        Meta::List(list) if list.path.is_ident("cfg_attr") => {
            list.tokens.clone().into_iter().any(is_refused_word)
        }
        meta => meta.path().is_ident("cfg"),
    }
}

/// The doc comment: lines without their leading space, joined.
pub(crate) fn doc_of(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => {
                let text = text.value();
                Some(text.strip_prefix(' ').map_or(text.clone(), str::to_owned))
            }
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn option_of(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = strip(ty) else {
        return None;
    };
    let last = path.path.segments.last()?;
    if last.ident == "Option" {
        argument(last)
    } else {
        None
    }
}

fn argument(segment: &syn::PathSegment) -> Option<&Type> {
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    match arguments.args.first()? {
        syn::GenericArgument::Type(ty) if arguments.args.len() == 1 => Some(ty),
        _ => None,
    }
}

// A type from a `macro_rules!` is in an invisible group.
fn strip(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => strip(&group.elem),
        Type::Paren(paren) => strip(&paren.elem),
        _ => ty,
    }
}
