//! The rules on names: of the entity and its fields, on the wire and in storage.

use std::collections::HashMap;

use syn::LitStr;

use super::check::check_storage_name;
use super::model::EntityModel;
use crate::diagnostics::Diagnostics;
use crate::names;

/// The query parameters of the list route.
const LIST_PARAMETERS: [&str; 5] = ["limit", "cursor", "sort", "sortDir", "include"];
/// The additional query parameters of a list with numbered pages.
const NUMBERED_LIST_PARAMETERS: [&str; 2] = ["page", "pageSize"];

/// Checks names of the entity and its fields.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    check_entity_name(model, d);
    check_field_names(model, d);
    check_renames(model, d);
}

fn check_entity_name(model: &EntityModel, d: &mut Diagnostics) {
    let written = &model.written;
    let name = &model.name;
    if !(name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric()))
    {
        let message = format!("entity name `{name}` is not PascalCase in ASCII letters and digits");
        let problem = match &written.name {
            Some(text) => d.error(text, message),
            None => d.error(&model.ident, message),
        };
        let better =
            names::pascal(&name.replace(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric(), "_"));
        match &written.name {
            _ if !better.is_ascii() || !better.starts_with(|c: char| c.is_ascii_uppercase()) => {
                problem.help("set the public name: `name = \"Post\"`");
            }
            Some(_) => problem.help(format!("`name = \"{better}\"`")),
            None => problem.help(format!("`{better}`")),
        }
    }
    if let Some(namespace) = &model.namespace {
        let text = namespace.value();
        let fits = text.starts_with(|c: char| c.is_ascii_lowercase())
            && text
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !fits {
            let help = names::snake(&text.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
            let help = help.trim_start_matches(|c: char| !c.is_ascii_lowercase());
            d.error(
                namespace,
                format!("namespace `{text}` is not of the form [a-z][a-z0-9_]*"),
            )
            .help(if help.is_empty() {
                "`namespace = \"blog\"`".to_owned()
            } else {
                format!("`namespace = \"{help}\"`")
            });
        }
    }
    if let Some(path) = &written.path {
        check_path(path, d);
    }
    // The name of the table must be short enough for every store.
    match &written.storage_name {
        Some(name) => check_storage_name(name, "table name", d),
        None if model.storage_name.len() > 63 => {
            let length = model.storage_name.len();
            d.error_at(
                model.ident.span(),
                format!("table name is {length} bytes after mapping; at most 63"),
            )
            .help("`storage_name = \"..\"`");
        }
        None => {}
    }
}

fn check_path(path: &LitStr, d: &mut Diagnostics) {
    let text = path.value();
    let unreserved = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    if text.starts_with('/') || text.ends_with('/') {
        d.error(
            path,
            "`path` is relative to the mount, so it must not begin or end with a slash",
        )
        .help(format!("`path = \"{}\"`", text.trim_matches('/')));
    } else if text.contains(['{', ':']) {
        d.error(path, "`path` must have static segments only")
            .help("parameters belong to the routes of operations");
    } else if text.split('/').any(|segment| {
        segment.is_empty() || segment == "." || segment == ".." || !segment.chars().all(unreserved)
    }) {
        d.error(
            path,
            format!("`path` \"{text}\" has a segment that is empty, `.`, `..` or needs encoding in a URL"),
        )
        .help("letters, digits, `-`, `.`, `_` and `~`, as in `path = \"news/posts\"`");
    }
}

/// Checks that names of fields, members and columns are unique and short enough for every store.
fn check_field_names(model: &EntityModel, d: &mut Diagnostics) {
    let mut wires: HashMap<&str, &str> = HashMap::new();
    let mut columns: HashMap<String, &str> = HashMap::new();
    for (index, field) in model.fields.iter().enumerate() {
        let written = field.options.column.as_ref();
        if let Some(column) = written {
            check_storage_name(column, "column name", d);
        } else if field.column.len() > 63 {
            let length = field.column.len();
            d.error(
                &field.ident,
                format!("column name is {length} bytes after mapping; at most 63"),
            )
            .help("`#[field(column = \"..\")]`");
        }
        let page_parameters: &[&str] = if model.numbered {
            &NUMBERED_LIST_PARAMETERS
        } else {
            &[]
        };
        if model.filterable(index)
            && LIST_PARAMETERS
                .iter()
                .chain(page_parameters)
                .any(|parameter| *parameter == field.wire)
        {
            let message = format!(
                "field `{}` is a filter of the list route, whose query parameter `{}` has another \
                 meaning",
                field.name, field.wire
            );
            d.error(&field.ident, message)
                .help("rename the field; `#[field(column = \"..\")]` keeps its column");
        }
        if field.wire.is_empty() {
            d.error(
                &field.ident,
                format!("field `{}` has no name on the wire", field.name),
            )
            .help("use letters");
            continue;
        }
        if let Some(first) = wires.insert(&field.wire, &field.name) {
            if first != field.name {
                d.error(
                    &field.ident,
                    format!(
                        "fields `{first}` and `{}` share wire name `{}`",
                        field.name, field.wire
                    ),
                )
                .help("rename one of them");
            }
            continue;
        }
        // SQL sometimes ignores the case of names, even when quoted (SQLite does).
        if let Some(first) = columns.insert(field.column.to_lowercase(), &field.name) {
            let message = format!(
                "fields `{first}` and `{}` share column `{}`",
                field.name, field.column
            );
            match written {
                Some(column) => d.error(column, message).help("name another column"),
                None => d
                    .error(&field.ident, message)
                    .help("`#[field(column = \"..\")]`"),
            }
        }
    }
}

/// Checks that `rename_from` does not name an existing field and no name is used twice.
fn check_renames(model: &EntityModel, d: &mut Diagnostics) {
    let mut claimed: HashMap<String, &str> = HashMap::new();
    let fields = model.fields.iter();
    for (field, rename) in fields.flat_map(|f| f.options.rename_from.iter().map(move |r| (f, r))) {
        let old = rename.value();
        if let Some(current) = model
            .fields
            .iter()
            .find(|f| f.name == old || f.column == old)
        {
            let problem = d.error(
                rename,
                format!(
                    "`rename_from = \"{old}\"`: field `{}` still exists",
                    current.name
                ),
            );
            problem.help("write the previous name of the field, or leave the option out");
        } else if let Some(first) = claimed.insert(old.clone(), &field.name) {
            if first == field.name {
                report_repeated_name(rename, d);
                continue;
            }
            d.error(
                rename,
                format!("`rename_from = \"{old}\"` is claimed by field `{first}` too"),
            )
            .help("only one field can take over the old name");
        }
    }
    for (i, rename) in model.rename_from.iter().enumerate() {
        if rename.value() == model.storage_name {
            d.error(
                rename,
                format!(
                    "`rename_from = \"{}\"` is the current storage name",
                    model.storage_name
                ),
            )
            .help("write the previous name of the table, or leave the option out");
        } else if model.rename_from[..i]
            .iter()
            .any(|earlier| earlier.value() == rename.value())
        {
            report_repeated_name(rename, d);
        }
    }
}

fn report_repeated_name(rename: &LitStr, d: &mut Diagnostics) {
    d.error(
        rename,
        format!("`{}` is in `rename_from` twice", rename.value()),
    )
    .help("list each previous name once, the newest first");
}
