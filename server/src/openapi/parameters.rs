//! Parameters of a route: path, query and headers, one by one.

use serde_json::{Value as Json, json};

use super::operation::Parts;
use super::schema;
use crate::entity::{EntityDesc, FieldDesc, Kind, Paging, ScopeFrom, SortDesc};
use crate::http::{Action, Endpoint, MAX_LIST_VALUES, PageKey, filterable, sortable};
use crate::operation::{Answer, Method, ParamSpec, Place};

/// Every parameter of a route.
pub(super) fn parameters(parts: &Parts<'_>) -> Vec<Json> {
    let endpoint = parts.endpoint;
    let mut out = path(parts);
    if let Action::Plugin(desc) = endpoint.action {
        out.extend(super::plugin_routes::parameters(desc));
    }
    let Some(table) = &endpoint.table else {
        return out;
    };
    match endpoint.action {
        Action::List => {
            let keys = PageKey::of_list(table.desc);
            out.extend(keys.iter().map(|(name, key)| {
                page(
                    endpoint,
                    name,
                    *key,
                    Some(table.desc.pagination.default_limit),
                )
            }));
            let output = endpoint.policy.output;
            out.extend(sort(table.desc, output));
            out.extend(
                filterable(table.desc, output)
                    .iter()
                    .flat_map(|field| filters(&table.desc.fields[*field])),
            );
        }
        Action::Operation(spec, _) => {
            for param in spec.params {
                let in_query = matches!(param.place, Place::Query | Place::Segment)
                    && !in_path(endpoint, param);
                if in_query {
                    out.extend(query(param, param.field_of(table.desc)));
                }
            }
            let in_query = matches!(endpoint.method, Method::Get | Method::Delete);
            let keys = if in_query {
                PageKey::of(spec)
            } else {
                Box::default()
            };
            out.extend(
                keys.iter()
                    .map(|(name, key)| page(endpoint, name, *key, None)),
            );
        }
        _ => {}
    }
    out.extend(super::related::parameter(endpoint));
    out.extend(precondition(parts));
    out.extend(super::repeat::parameter(endpoint));
    out
}

/// Whether this parameter is a segment of the route's path; then it is not in the query or body.
pub(super) fn in_path(endpoint: &Endpoint, param: &ParamSpec) -> bool {
    super::names::parameters(&endpoint.path)
        .iter()
        .any(|name| name == param.name)
}

/// The path parameters.
fn path(parts: &Parts<'_>) -> Vec<Json> {
    let endpoint = parts.endpoint;
    let own = super::names::parameters(&endpoint.path);
    let schema = |name: &str| -> Json {
        let Some(table) = &endpoint.table else {
            return json!({ "type": "string" });
        };
        let parent = table
            .desc
            .scope
            .iter()
            .find(|scope| matches!(scope.from, ScopeFrom::Path(of) if of == name));
        if let Some(field) = parent.and_then(|scope| table.desc.fields.get(scope.field)) {
            return Json::Object(schema::bare(field));
        }
        match endpoint.action {
            Action::Get | Action::Update | Action::Delete => {
                Json::Object(schema::bare(table.desc.primary_field()))
            }
            Action::Operation(spec, _) => spec
                .params
                .iter()
                .find(|p| p.name == name && !p.element)
                .map(|p| p.field_of(table.desc))
                .map_or_else(
                    || json!({ "type": "string" }),
                    |field| Json::Object(schema::bare(field)),
                ),
            _ => json!({ "type": "string" }),
        }
    };
    let names = own.iter().zip(parts.wire_names);
    names.map(|(own, wire)| json!({ "name": wire, "in": "path", "required": true, "schema": schema(own) })).collect()
}

/// A declared parameter in the query.
fn query(param: &ParamSpec, field: &FieldDesc) -> Vec<Json> {
    let mut out = Vec::new();
    let value = if param.element {
        json!({ "type": "string" })
    } else {
        Json::Object(schema::bare(field))
    };
    if param.list {
        out.push(list(param.name, &value, param.required, None));
    } else {
        let mut parameter = json!({ "name": param.name, "in": "query", "schema": value });
        // If the parameter also has a null form, a call uses one of the two, so neither is
        // required.
        if param.required && !param.nullable {
            parameter["required"] = json!(true);
        }
        schema::describe(&mut parameter, field.doc);
        schema::default(&mut parameter["schema"], param, field);
        out.push(parameter);
    }
    if param.nullable {
        let mut null = null_test(param.name);
        null["schema"] = json!({ "const": true });
        null["description"] = json!("Selects records in which the value is null.");
        out.push(null);
    }
    out
}

/// The paging parameter in the query. `default` is the default limit.
fn page(endpoint: &Endpoint, name: &str, key: PageKey, default: Option<u32>) -> Json {
    let mut schema = page_schema(endpoint, key);
    let pagination = endpoint.table.as_ref().map(|table| table.desc.pagination);
    let unbounded = pagination
        .filter(|pagination| !pagination.unbounded_lookup)
        .map(|pagination| pagination.default_limit);
    let description = match (key, endpoint.paging()) {
        (PageKey::Limit, Paging::Number { most }) => format!("The number of records of a page; at most {most}."),
        (PageKey::Limit, Paging::Limit) => {
            if let Some(default) = default.or(unbounded) {
                schema["default"] = json!(default);
            }
            format!("The maximum number of records; at most {}.", pagination.map_or(0, |pagination| pagination.max_limit))
        }
        (PageKey::Cursor, _) => "`nextCursor` of the previous page.".to_owned(),
        (PageKey::Number, _) => "The number of the page; it cannot be combined with `cursor`. `page` times `pageSize` must be at most 10000.".to_owned(),
        (PageKey::Sort, _) => "The order of the records.".to_owned(),
    };
    json!({ "name": name, "in": "query", "schema": schema, "description": description })
}

/// The schema of the paging parameter.
pub(super) fn page_schema(endpoint: &Endpoint, key: PageKey) -> Json {
    match (key, endpoint.paging(), endpoint.action) {
        (PageKey::Cursor, ..) => json!({ "type": "string", "maxLength": 2048 }),
        (PageKey::Number, ..) => json!({ "type": "integer", "minimum": 1, "default": 1 }),
        (PageKey::Limit, Paging::Number { most }, _) => {
            json!({ "type": "integer", "minimum": 1, "default": Paging::SIZE.min(most) })
        }
        (PageKey::Sort, _, Action::Operation(spec, _)) => {
            let names: Vec<&str> = spec.kind.sorts().iter().map(|sort| sort.name).collect();
            json!({ "type": "string", "enum": names, "default": names.first() })
        }
        _ => json!({ "type": "integer", "minimum": 1 }),
    }
}

/// `sort` and `sortDir`.
fn sort(desc: &EntityDesc, output: Option<&[&str]>) -> [Json; 2] {
    let fields: Vec<&str> = sortable(desc, output)
        .iter()
        .map(|field| desc.fields[*field].wire)
        .collect();
    let mut keys = Vec::new();
    let by_key = [SortDesc {
        field: desc.primary,
        desc: false,
    }];
    let sort: &[SortDesc] = if desc.sort.is_empty() {
        &by_key
    } else {
        desc.sort
    };
    for key in sort {
        let Some(field) = desc.fields.get(key.field) else {
            continue;
        };
        keys.push(format!(
            "{} {}",
            field.wire,
            if key.desc { "desc" } else { "asc" }
        ));
    }
    let described = format!("Default: {}.", keys.join(", "));
    [
        json!({ "name": "sort", "in": "query", "schema": { "type": "string", "enum": fields }, "description": described }),
        json!({ "name": "sortDir", "in": "query", "schema": { "type": "string", "enum": ["asc", "desc"] } }),
    ]
}

/// The filter parameters of the list route for one field.
fn filters(field: &FieldDesc) -> Vec<Json> {
    let value = Json::Object(schema::bare(field));
    let one = |suffix: &str| json!({ "name": format!("{}{suffix}", field.wire), "in": "query", "schema": value });
    let mut out = Vec::new();
    if field.kind.is_scalar() {
        out.extend([one(""), one("[ne]")]);
    }
    if matches!(
        field.kind,
        Kind::String | Kind::Integer | Kind::Number | Kind::Date
    ) {
        out.extend(["[gt]", "[gte]", "[lt]", "[lte]"].map(one));
    }
    if field.kind.is_scalar() && !matches!(field.kind, Kind::Boolean) {
        for suffix in ["[in]", "[nin]"] {
            out.push(list(
                &format!("{}{suffix}", field.wire),
                &value,
                false,
                Some(MAX_LIST_VALUES),
            ));
        }
    }
    let part = json!({ "type": "string", "minLength": 1 });
    match field.kind {
        Kind::String => out.push(json!({
            "name": format!("{}[contains]", field.wire), "in": "query", "schema": part, "description": "A substring; upper and lower case are equal.",
        })),
        Kind::StringArray => {
            out.push(json!({ "name": format!("{}[has]", field.wire), "in": "query", "schema": { "type": "string" } }));
        }
        _ => {}
    }
    if field.optional {
        out.push(null_test(field.wire));
    }
    out
}

/// The syntax of lists of values in a query.
const LIST: &str = "Commas separate the values. A comma within a value is written `%2C` or `\\,`, and a backslash `\\\\`. \
    The parameter may be given several times; all of its values count.";

/// A list of at most `max_values` values.
fn list(name: &str, item: &Json, required: bool, max_values: Option<usize>) -> Json {
    let mut out = json!({
        "name": name, "in": "query", "style": "form", "explode": false, "description": LIST,
        "schema": { "type": "array", "items": item, "minItems": 1 },
    });
    if let Some(max_values) = max_values {
        out["schema"]["maxItems"] = json!(max_values);
    }
    if required {
        out["required"] = json!(true);
    }
    out
}

fn null_test(name: &str) -> Json {
    json!({ "name": format!("{name}[null]"), "in": "query", "schema": { "type": "boolean" }, "description": "Whether the value is null." })
}

/// Whether the route reads one record, so that `If-None-Match` can save its body.
pub(super) fn answers_record(endpoint: &Endpoint) -> bool {
    match endpoint.action {
        Action::Get => true,
        Action::Operation(spec, _) => {
            endpoint.method == Method::Get
                && matches!(spec.kind.returns(), Answer::Record | Answer::RecordOrNull)
        }
        _ => false,
    }
}

/// `If-Match` and `If-None-Match`, for entities with versions.
fn precondition(parts: &Parts<'_>) -> Option<Json> {
    let endpoint = parts.endpoint;
    let version = endpoint.table.as_ref()?.desc.version?;
    let header = |name: &str, required: bool, description: &str| {
        json!({
            "name": name, "in": "header", "required": required, "description": description,
            "schema": { "type": "string", "pattern": "^\"(0|[1-9][0-9]*)\"$" },
        })
    };
    let write = "The `ETag` of the version that is to be changed.";
    match endpoint.action {
        _ if answers_record(endpoint) && !endpoint.has_counters() => Some(header(
            "If-None-Match",
            false,
            "Answers 304 when the record still has this `ETag`.",
        )),
        Action::Update | Action::Delete => {
            Some(header("If-Match", version.required_on_write, write))
        }
        Action::Operation(..) if super::errors::takes_if_match(endpoint) => {
            Some(header("If-Match", false, write))
        }
        _ => None,
    }
}
