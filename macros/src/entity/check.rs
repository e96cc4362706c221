//! The rules on an entity as a whole; all problems are reported.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::LitStr;

use super::field::{Field, Flag, Kind};
use super::model::{EntityModel, IndexField};
use super::{
    check_computed, check_field, check_names, gates, grants, mounts, parse, relations, search,
    summaries, visibility,
};
use crate::diagnostics::{Diagnostics, list};
use crate::options;

/// Checks all rules that need only the declaration.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    check_field_count(model, d);
    check_primary_key(model, d);
    for field in &model.fields {
        check_field::check(field, d);
    }
    check_initial_values(model, d);
    check_names::check(model, d);
    check_indexes(model, d);
    check_sort(model, d);
    check_computed::check(model, d);
    check_version_field(model, d);
    visibility::check(model, d);
    relations::check(model, d);
    gates::check(model, d);
    summaries::check(model, d);
    search::check(model, d);
    check_pagination(&model.pagination, d);
    grants::check(model, d);
    mounts::check(model, d);
    crate::policy::narrow::check(model, d);
    crate::policy::permission::check(model, d);
}

/// The key of a prepared statement contains the positions of fields. A position is one byte, and
/// the highest values are separators.
const MAX_FIELDS: usize = 200;

fn check_field_count(model: &EntityModel, d: &mut Diagnostics) {
    let fields = model.fields.len();
    if fields > MAX_FIELDS {
        d.error(
            &model.ident,
            format!(
                "entity `{}` has {fields} fields; at most {MAX_FIELDS}",
                model.ident
            ),
        )
        .help("move fields to an item struct, a JSON field or another entity");
    }
}

/// Checks that the entity has exactly one primary key, which is a `String` or an `i64`.
fn check_primary_key(model: &EntityModel, d: &mut Diagnostics) {
    let keys: Vec<&Field> = model
        .fields
        .iter()
        .filter(|f| f.has(Flag::Primary))
        .collect();
    let [key] = keys[..] else {
        match keys.get(1) {
            None => {
                let problem = d.error(
                    &model.ident,
                    format!("entity `{}` has no primary key", model.ident),
                );
                problem.help("mark one field: `#[field(primary, default = uuid)] pub id: String`");
            }
            Some(second) => {
                let names = list(keys.iter().map(|f| &f.name));
                d.error(
                    &second.ident,
                    format!(
                        "entity `{}` has {} primary keys: {names}",
                        model.ident,
                        keys.len()
                    ),
                )
                .help("keep one; others can be `unique(..)`");
            }
        }
        return;
    };
    if key.optional {
        d.error(
            &key.ty,
            format!(
                "primary key `{}` must be String or i64, found an Option",
                key.name
            ),
        )
        .help(format!("`{}`", type_text(&key.inner)));
    } else if !matches!(
        key.kind,
        Kind::String | Kind::Uuid | Kind::Integer | Kind::Other
    ) {
        let found = type_text(&key.ty);
        d.error(
            &key.ty,
            format!(
                "primary key `{}` must be String or i64, found {found}",
                key.name
            ),
        )
        .help("`String`");
    }
    if let Some((at, _)) = &key.options.transform {
        d.error(
            at,
            format!("primary key `{}` cannot be transformed", key.name),
        )
        .help("declare a new entity and copy the records");
    }
    for flag in [Flag::Private, Flag::WriteOnly] {
        if let Some(at) = key.options.flag(flag) {
            d.error(
                at,
                format!(
                    "primary key `{}` cannot be hidden: it is part of every path",
                    key.name
                ),
            )
            .help("leave the option out");
        }
    }
}

/// Returns the private fields that never get a value on create, each with the token `private` of
/// its declaration: clients cannot send them, and they have no default.
pub(super) fn unfillable(model: &EntityModel) -> impl Iterator<Item = (&Field, &syn::Ident)> {
    let create = !model.routes[0].disabled && !model.has_unread_options && !model.has_unread_routes;
    let filled =
        |f: &Field| f.optional || f.server_owned() || f.has_default() || f.has(Flag::Required);
    let fields = model
        .fields
        .iter()
        .filter(move |field| create && !filled(field));
    fields.filter_map(|field| Some((field, field.options.flag(Flag::Private)?)))
}

/// Checks that private fields have an initial value. Types of [`Kind::Other`] are left to rustc:
/// they may be lists, which are empty at first.
fn check_initial_values(model: &EntityModel, d: &mut Diagnostics) {
    for (field, at) in unfillable(model).filter(|(field, _)| field.kind != Kind::Other) {
        d.error(at, unfillable_text(field))
            .help(unfillable_help(field));
    }
}

pub(super) fn unfillable_text(field: &Field) -> String {
    format!(
        "create could not fill private field `{}`, which no client may send",
        field.name
    )
}

pub(super) fn unfillable_help(field: &Field) -> String {
    let ty = type_text(&field.inner);
    format!(
        "give it a default, make it `Option<{ty}>`, or create records in code only: `routes(create(disabled))`"
    )
}

/// Checks that each index and each unique names a field once, and only fields that can be indexed.
fn check_indexes(model: &EntityModel, d: &mut Diagnostics) {
    let mut seen: Vec<(bool, Vec<(usize, bool)>)> = Vec::new();
    for index in &model.indexes {
        check_index_fields(model, "index", "indexed", &index.fields, d);
        if let Some(first) = index.fields.first()
            && let Some(hidden) = hidden(&model.fields[first.field])
        {
            let name = &model.fields[first.field].name;
            d.error(
                &first.ident,
                format!(
                    "index begins with {hidden} field `{name}`: cursors would reveal its values"
                ),
            )
            .help("put a readable field first");
        }
        if let Some(global) = &index.global
            && model.visibility.tenant.is_none()
            && model.visibility.scopes.is_empty()
            && !model.has_unread_options
        {
            d.error(
                global,
                "`global` changes nothing without a tenant or a scope",
            )
            .help("remove it: every index of this entity is already global");
        }
        let fields = index.fields.iter().map(|p| (p.field, p.desc));
        let shape = (index.global.is_some(), fields.collect::<Vec<_>>());
        if !shape.1.is_empty() && seen.contains(&shape) {
            d.error(&index.key, "this index is declared twice")
                .help("keep one of them");
        }
        seen.push(shape);
    }
    let mut seen: Vec<Vec<usize>> = Vec::new();
    for unique in &model.uniques {
        check_index_fields(model, "unique", "unique", &unique.fields, d);
        for place in unique.fields.iter().filter(|p| p.desc) {
            d.error(&place.ident, "`unique` does not accept a direction")
                .help(format!("`unique({})`", place.ident));
        }
        let mut shape: Vec<_> = unique.fields.iter().map(|p| p.field).collect();
        shape.sort_unstable();
        if !shape.is_empty() && seen.contains(&shape) {
            d.error(&unique.key, "this unique is declared twice")
                .help("keep one of them");
        }
        seen.push(shape);
    }
}

fn check_index_fields(
    model: &EntityModel,
    of: &str,
    what: &str,
    fields: &[IndexField],
    d: &mut Diagnostics,
) {
    for (i, place) in fields.iter().enumerate() {
        let field = &model.fields[place.field];
        if fields[..i].iter().any(|p| p.field == place.field) {
            d.error(
                &place.ident,
                format!("field `{}` repeated in {of}", field.name),
            )
            .help("name each field once");
        }
        if !field.kind.is_scalar() {
            d.error(
                &place.ident,
                format!("`{}` ({}) cannot be {what}", field.name, kind_text(field)),
            );
        }
    }
}

/// Checks that the fields of the default sort can be sorted. Several fields need an index, as in
/// named sorts.
fn check_sort(model: &EntityModel, d: &mut Diagnostics) {
    let before = d.len();
    for (i, place) in model.sort.iter().enumerate() {
        let field = &model.fields[place.field];
        if !field.kind.is_scalar() {
            d.error(
                &place.ident,
                format!("cannot sort by `{}` ({})", field.name, kind_text(field)),
            );
        } else if let Some(hidden) = hidden(field) {
            d.error(
                &place.ident,
                format!(
                    "sort on {hidden} field `{}` would leak through cursors",
                    field.name
                ),
            )
            .help("sort by a readable field");
        } else if model.sort[..i].iter().any(|p| p.field == place.field) {
            d.error(
                &place.ident,
                format!("field `{}` repeated in sort", field.name),
            )
            .help("name each field once");
        }
    }
    let keys: Vec<(usize, bool)> = model
        .sort
        .iter()
        .map(|place| (place.field, place.desc))
        .collect();
    let pinned = |field: usize| model.visibility.pins(field, "list");
    if let [first, _, ..] = &model.sort[..]
        && d.len() == before
        && !model.has_index_for(&keys, &pinned)
    {
        d.error(
            &first.ident,
            "a sort of several fields needs an index on the same fields",
        )
        .help(format!("`{}`", index_text(model, &keys)));
    }
}

/// Returns the text of an index with these keys.
pub(crate) fn index_text(model: &EntityModel, keys: &[(usize, bool)]) -> String {
    let key = |(field, desc): &(usize, bool)| {
        let name = &model.fields[*field].name;
        if *desc {
            format!("desc({name})")
        } else {
            name.clone()
        }
    };
    format!(
        "index({})",
        keys.iter().map(key).collect::<Vec<_>>().join(", ")
    )
}

/// Checks that no declared field has the name of the version counter, which the macro adds.
fn check_version_field(model: &EntityModel, d: &mut Diagnostics) {
    let Some(version) = &model.version else {
        return;
    };
    let field = &model.fields[version.field];
    if !field.generated {
        d.error(
            &field.ident,
            format!(
                "field `{}` is reserved by `version`: the macro adds it",
                field.name
            ),
        )
        .help("remove the field, or choose another name for the counter: `version(field = rev)`");
    }
}

/// Checks the page limits that are literals.
fn check_pagination(args: &parse::PaginationArgs, d: &mut Diagnostics) {
    let limit = |expr: &Option<syn::Expr>, name: &str, d: &mut Diagnostics| {
        let expr = expr.as_ref()?;
        if let Some((_, digits)) = options::suffixed(expr) {
            d.error(
                expr,
                format!("{name}_limit must be a number without a suffix"),
            )
            .help(format!("`{name} = {digits}`"));
            return None;
        }
        match options::as_int(expr) {
            Some(Ok(n)) if (1..=10_000).contains(&n) => return Some(n),
            Some(Ok(n)) => d
                .error(expr, format!("{name}_limit {n} is not within 1..=10000"))
                .help(format!("`{name} = 100`")),
            Some(Err(_)) => d
                .error(expr, format!("{name}_limit is not within 1..=10000"))
                .help(format!("`{name} = 100`")),
            None if matches!(expr, syn::Expr::Path(_)) => {} // a const: asserted by the expansion
            None => d
                .error(expr, format!("{name}_limit needs a whole number"))
                .help(format!("`{name} = 100`")),
        }
        None
    };
    let default = limit(&args.default, "default", d);
    let max = limit(&args.max, "max", d);
    let (default_or, max_or) = (
        default.or(args.default.is_none().then_some(50)),
        max.or(args.max.is_none().then_some(200)),
    );
    if let (Some(default), Some(max)) = (default_or, max_or)
        && default > max
        && let Some(at) = args.default.as_ref().or(args.max.as_ref())
    {
        d.error(
            at,
            format!("default_limit {default} exceeds max_limit {max}"),
        )
        .help(format!("`pagination(default = {max}, max = {default})`"));
    }
}

/// `private` or `write_only`.
pub(crate) fn hidden(field: &Field) -> Option<&'static str> {
    if field.has(Flag::Private) {
        Some("private")
    } else {
        field.has(Flag::WriteOnly).then_some("write_only")
    }
}

/// Returns the name of the type in messages, or the type as written if only rustc knows it.
pub(crate) fn kind_text(field: &Field) -> String {
    field
        .kind
        .name()
        .map_or_else(|| type_text(&field.inner), str::to_owned)
}

/// Formats a type as in formatted source code. The text of a token stream has more spaces.
pub(crate) fn type_text(ty: &syn::Type) -> String {
    let mut text = String::new();
    write_tokens(quote::quote!(#ty), &mut text);
    text
}

fn write_tokens(tokens: TokenStream, out: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) => {
                if out.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                    out.push(' ');
                }
                out.push_str(&word.to_string());
            }
            TokenTree::Punct(punct) => {
                out.push(punct.as_char());
                if punct.as_char() == ',' || punct.as_char() == ';' {
                    out.push(' ');
                }
            }
            TokenTree::Literal(literal) => out.push_str(&literal.to_string()),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                out.push_str(open);
                write_tokens(group.stream(), out);
                out.push_str(close);
            }
        }
    }
}

/// Checks that every store accepts this name of a table or column.
pub(crate) fn check_storage_name(text: &LitStr, what: &str, d: &mut Diagnostics) {
    let value = text.value();
    if value.is_empty() || value.len() > 63 {
        d.error(
            text,
            format!(
                "{what} is {} bytes after mapping; at least 1 and at most 63",
                value.len()
            ),
        )
        .help("a name of 1 to 63 bytes");
    } else if value
        .chars()
        .any(|c| c.is_control() || "\"'`\\".contains(c))
    {
        d.error(
            text,
            format!("{what} contains a quote or control character"),
        )
        .help("letters, digits and `_`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_read_as_written() {
        for text in [
            "bool",
            "std::vec::Vec<Option<blog::Status>>",
            "HashMap<String, [u8; 4]>",
            "&'a str",
            "Box<dyn Any>",
            "(A, B)",
            "r#type",
        ] {
            let ty: syn::Type = syn::parse_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(type_text(&ty), text);
        }
    }
}
