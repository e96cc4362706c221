//! Random steps, generated from the mounted routes and their parameters. Routes that are added
//! later are included without a change here.

use linchpin::entity::{DefaultDesc, EntityDesc, FieldDesc, Flags, Kind, Link, Paging, Relation};
use linchpin::http::{Action, Endpoint};
use linchpin::operation::{Answer, NamedSort, OpSpec, ParamSpec, Place, Whole};
use serde_json::{Map, Value as Json, json};

mod filtered;

use self::filtered::filtered;
use super::act;
use super::pool::{Random, item, some_value, text, value};
use super::sequence::{Call, Code, Step, What};
use super::side::ACTORS;

/// A sequence of 50 to 200 steps; equal seeds give equal sequences.
pub fn sequence(routes: &[Endpoint], seed: u64) -> Vec<Step> {
    let mut r = Random::new(seed);
    let steps = 50 + r.below(151);
    // A sequence uses few entities, so that its calls often concern the same records.
    let entities_of_routes: Vec<&'static EntityDesc> = routes
        .iter()
        .filter_map(|e| e.table.as_ref())
        .map(|t| t.desc)
        .collect();
    let mut all = entities_of_routes.clone();
    all.dedup_by_key(|desc| desc.storage_name);
    // Every entity can be chosen; those with many routes are chosen more often.
    let mut entities: Vec<&'static EntityDesc> = (0..=r.below(2))
        .map(|_| {
            if r.percent(50) {
                *r.one(&all)
            } else {
                *r.one(&entities_of_routes)
            }
        })
        .collect();
    // Adds the entities that their records refer to.
    for at in 0..entities.len() {
        for relation in entities[at].relations {
            let target = (relation.target)();
            if entities
                .iter()
                .all(|known| known.storage_name != target.storage_name)
            {
                entities.push(target);
            }
        }
    }
    // Adds the entities with counters that count records of the chosen entities.
    for at in 0..entities.len() {
        for target in entities[at]
            .summaries
            .iter()
            .map(|summary| (summary.target)())
        {
            if entities
                .iter()
                .all(|known| known.storage_name != target.storage_name)
            {
                entities.push(target);
            }
        }
    }
    // Adds the entities to which the gates of the chosen entities lead.
    let mut at = 0;
    while let Some(desc) = entities.get(at).copied() {
        for gate in desc.gates {
            if entities
                .iter()
                .all(|known| known.storage_name != gate.target.storage_name)
            {
                entities.push(gate.target);
            }
        }
        at += 1;
    }
    let mut out: Vec<Step> = Vec::new();
    for _ in 0..steps {
        let next = match out.last() {
            // Repeats the call, by the same caller or another.
            Some(last) if r.percent(if is_keyed(last) { 40 } else { 2 }) => {
                let actor = if r.percent(80) {
                    last.actor
                } else {
                    r.below(ACTORS.len())
                };
                Step {
                    advance: *r.one(&[0, 0, 0, 1, 61_000]),
                    actor,
                    what: last.what.clone(),
                }
            }
            last => {
                let previous_actor = last.map(|step| step.actor);
                step(&mut r, routes, &entities, previous_actor)
            }
        };
        out.push(next);
    }
    out
}

/// Whether a call is made under an idempotency key.
fn is_keyed(step: &Step) -> bool {
    matches!(&step.what, What::Call(call) if call.headers.iter().any(|(name, _)| name == IDEMPOTENCY))
}

const IDEMPOTENCY: &str = "idempotency-key";

/// Whether calls from code may also use records of this entity.
fn is_coded(desc: &EntityDesc) -> bool {
    ["diff_people", "diff_memos", "diff_projects", "diff_jobs"].contains(&desc.storage_name)
}

fn step(
    r: &mut Random,
    routes: &[Endpoint],
    entities: &[&'static EntityDesc],
    previous_actor: Option<usize>,
) -> Step {
    let desc = *r.one(entities);
    let advance = match r.below(30) {
        0 => 12_000,
        1 => 60_000,
        2..=12 => 1 + r.below(3000) as i64,
        _ => 0,
    };
    let actor = match previous_actor {
        // The same caller as before: many records are visible only to their creator.
        Some(previous) if r.percent(40) => previous,
        _ if r.percent(8) => r.below(ACTORS.len()),
        _ => *r.one(&[1, 1, 1, 1, 1, 2, 2, 3, 3, 4]),
    };
    let what = match r.below(100) {
        0..8 => filtered(r, desc),
        8..28 if is_coded(desc) => {
            let (acts, end) = act::random_calls(r, desc.storage_name == "diff_jobs");
            What::Code(Code { acts, end })
        }
        _ => What::Call(call(r, routes, desc)),
    };
    Step {
        advance,
        actor,
        what,
    }
}

fn call(r: &mut Random, routes: &[Endpoint], desc: &'static EntityDesc) -> Call {
    let own: Vec<&Endpoint> = routes
        .iter()
        .filter(|e| {
            e.table
                .as_ref()
                .is_some_and(|t| t.desc.storage_name == desc.storage_name)
        })
        .collect();
    // Other calls need existing records, so `create` is called more often.
    let create_routes = || {
        own.iter()
            .copied()
            .filter(|e| matches!(e.action, Action::Create))
            .collect::<Vec<_>>()
    };
    let endpoint = if r.percent(15) {
        *r.one(&create_routes())
    } else {
        *r.one(&own)
    };
    let mut call = Call {
        method: endpoint.method.as_str().to_owned(),
        route: endpoint.path.clone(),
        ..Call::default()
    };
    match endpoint.action {
        Action::Create => call.body = Some(create_body(r, desc)),
        Action::Update => call.body = Some(update_body(r, desc)),
        Action::List => list(r, desc, &mut call),
        Action::Operation(spec, in_path) => operation(r, spec, in_path, desc, &mut call),
        _ => {}
    }
    call.path = path(r, endpoint, desc);
    let by_id = matches!(
        endpoint.action,
        Action::Update | Action::Delete | Action::Operation(..) | Action::Get
    );
    let precondition_percent = match desc.version {
        Some(version) if by_id && version.required_on_write => 70,
        Some(_) if by_id => 40,
        _ => 1,
    };
    if r.percent(precondition_percent) {
        let name = if matches!(endpoint.action, Action::Get) {
            "if-none-match"
        } else {
            "if-match"
        };
        let version = if r.percent(3) {
            "\"x\"".to_owned()
        } else {
            format!("\"{}\"", 1 + r.below(3))
        };
        call.headers.push((name.to_owned(), version));
    }
    if endpoint.policy.idempotency.is_some() && r.percent(60) {
        call.headers.push((
            IDEMPOTENCY.to_owned(),
            (*r.one(&["one", "one", "two", "three", "not visible"])).to_owned(),
        ));
    }
    if endpoint.includes() && r.percent(50) {
        call.query.push(("include".to_owned(), included(r, desc)));
    }
    if r.below(60) == 0 {
        call.query.push((
            (*r.one(&["includeDeleted", "actor.id", "tenantId"])).to_owned(),
            "t2".to_owned(),
        ));
    }
    call
}

/// The relations to include in the response.
fn included(r: &mut Random, desc: &EntityDesc) -> String {
    let paths = (0..=r.below(2)).map(|_| {
        let relation = r.one(desc.relations);
        let further = (relation.target)().relations;
        match r.below(20) {
            0 => "nothing".to_owned(),
            1..9 if !further.is_empty() => format!("{}.{}", relation.wire, r.one(further).wire),
            _ => relation.wire.to_owned(),
        }
    });
    paths.collect::<Vec<_>>().join(",")
}

/// The key of a record for a field that refers to one; `None` for other fields.
fn related_key(r: &mut Random, desc: &EntityDesc, field: &FieldDesc) -> Option<String> {
    let position = desc.fields.iter().position(|f| f.wire == field.wire)?;
    let names = |relation: &&Relation| matches!(relation.link, Link::BelongsTo { key, .. } if key == position);
    let relation = desc.relations.iter().find(names)?;
    Some(if r.percent(4) {
        "nobody".to_owned()
    } else {
        format!("<{}:{}>", (relation.target)().path, r.below(3))
    })
}

/// The key of a record, as text for a path.
fn key(r: &mut Random, desc: &EntityDesc) -> String {
    if r.percent(4) {
        return (*r.one(&[
            "none",
            "0",
            "01",
            "%",
            "..",
            "0193e7a0-0000-7000-8000-000000000000",
            "x y",
        ]))
        .to_owned();
    }
    match desc.primary_field().kind {
        Kind::Integer => (1 + r.below(5)).to_string(),
        // Mostly one of the newest records, which most likely still exist.
        _ => format!("<{}:{}>", desc.path, r.below(4).min(r.below(4))),
    }
}

fn path(r: &mut Random, endpoint: &Endpoint, desc: &'static EntityDesc) -> Vec<String> {
    let mut segments = Vec::new();
    for part in endpoint.path.split('/').skip(1) {
        let Some(name) = part.strip_prefix('{').and_then(|p| p.strip_suffix('}')) else {
            segments.push(part.to_owned());
            continue;
        };
        let param = match endpoint.action {
            Action::Operation(spec, _) => spec
                .params
                .iter()
                .find(|p| p.name == name && p.place != Place::Id),
            _ => None,
        };
        segments.push(match param {
            Some(param) => item_key(r, param, desc).unwrap_or_else(|| {
                let text = query_text(r, param.field_of(desc)).unwrap_or_default();
                // An empty segment matches no route, and clients resolve `.` and `..`.
                if matches!(text.as_str(), "" | "." | "..") {
                    "a".to_owned()
                } else {
                    text
                }
            }),
            None if name == "id" => key(r, desc),
            // A parameter of the parent path.
            None if name.starts_with("team") => (*r.one(&["1", "1", "2", "x"])).to_owned(),
            None => (*r.one(&["a", "a", "b%"])).to_owned(),
        });
    }
    segments
}

/// The key of an item, if a parameter of the path identifies one.
fn item_key(r: &mut Random, param: &ParamSpec, desc: &'static EntityDesc) -> Option<String> {
    let field = param.field_of(desc);
    let by_number = field.kind.item_fields().iter().any(|f| f.wire == "number");
    match field.kind {
        Kind::Items(_) if by_number => Some((*r.one(&["0", "1", "2", "3"])).to_owned()),
        Kind::Items(_) => Some(format!("<{}.{}:{}>", desc.path, field.wire, r.below(3))),
        _ => None,
    }
}

fn create_body(r: &mut Random, desc: &'static EntityDesc) -> Json {
    let mut body = Map::new();
    for field in desc.fields {
        let present = match field {
            _ if is_server_written(field, desc) => 1,
            _ if field.optional
                || field.default.is_some()
                || matches!(field.kind, Kind::StringArray | Kind::Items(_)) =>
            {
                40
            }
            _ => 99,
        };
        if r.percent(present) {
            body.insert(field.wire.to_owned(), stored_value(r, desc, field));
        }
    }
    if r.below(60) == 0 {
        body.insert("more".to_owned(), json!(1));
    }
    Json::Object(body)
}

/// A value to be stored. Clients choose among few different keys, so that records conflict.
fn stored_value(r: &mut Random, desc: &EntityDesc, field: &FieldDesc) -> Json {
    if let Some(key) = related_key(r, desc, field).filter(|_| !field.optional || r.percent(85)) {
        return json!(key);
    }
    match field.kind {
        Kind::String if field.wire == "authorId" && r.percent(95) => {
            json!(*r.one(&["alice", "bob", "bob", "carol"]))
        }
        Kind::Integer if field.flags.has(Flags::PRIMARY) => json!((1 + r.below(5)).to_string()),
        Kind::String if field.flags.has(Flags::PRIMARY) && r.percent(90) => {
            json!(*r.one(&["k1", "k2", "k3", "é", "k 4"]))
        }
        Kind::String if field.wire == "containerId" && r.percent(90) => {
            json!(*r.one(&["a", "b", "b", "c"]))
        }
        Kind::String if field.wire == "tallyId" && r.percent(95) => {
            json!(*r.one(&["k1", "k2", "k3"]))
        }
        Kind::String if field.wire == "accountId" => json!(format!("<accounts:{}>", r.below(3))),
        _ => value(r, field),
    }
}

/// Whether the server writes the field, so that a client must not send it.
fn is_server_written(field: &FieldDesc, desc: &EntityDesc) -> bool {
    let position = desc.fields.iter().position(|f| f.wire == field.wire);
    let is_this_field = |at: usize| Some(at) == position;
    !field.creatable()
        || desc.tenant.is_some_and(|t| is_this_field(t.field))
        || desc.scope.iter().any(|s| is_this_field(s.field))
        || (desc.soft_delete.is_some_and(|s| is_this_field(s.field()))
            && !matches!(field.kind, Kind::Enum(_)))
        || desc
            .ttl
            .is_some_and(|t| t.after.is_some() && is_this_field(t.field))
}

fn update_body(r: &mut Random, desc: &'static EntityDesc) -> Json {
    let mut body = Map::new();
    for field in desc.fields {
        let present = if is_server_written(field, desc) || !field.updatable() {
            1
        } else {
            18
        };
        if r.percent(present) {
            let part = if field.flags.has(Flags::PRIMARY) {
                value(r, field)
            } else {
                stored_value(r, desc, field)
            };
            body.insert(field.wire.to_owned(), part);
        }
    }
    Json::Object(body)
}

fn list(r: &mut Random, desc: &'static EntityDesc, call: &mut Call) {
    let fields: Vec<&FieldDesc> = desc.fields.iter().filter(|f| f.readable()).collect();
    let usable: Vec<&FieldDesc> = fields
        .iter()
        .copied()
        .filter(|f| f.flags.has(Flags::FILTERABLE.or(Flags::PRIMARY)))
        .collect();
    for _ in 0..r.below(4) {
        let field = if r.percent(4) {
            *r.one(&fields)
        } else {
            *r.one(&usable)
        };
        let ops: &[&str] = match field.kind {
            _ if r.percent(4) && !has_generated_texts(desc, field) => {
                &["[contains]", "[has]", "[gt]", "[x]", "[null]"]
            }
            Kind::StringArray => &["[has]", "[null]"],
            Kind::Boolean | Kind::Enum(_) => &["", "[ne]", "[null]"],
            Kind::String if !has_generated_texts(desc, field) => &[
                "",
                "[ne]",
                "[gt]",
                "[gte]",
                "[lt]",
                "[lte]",
                "[in]",
                "[nin]",
                "[contains]",
                "[null]",
            ],
            _ => &[
                "", "[ne]", "[gt]", "[gte]", "[lt]", "[lte]", "[in]", "[nin]", "[null]",
            ],
        };
        let op = *r.one(ops);
        let value = match op {
            "[null]" => Some((*r.one(&["true", "false"])).to_owned()),
            "[in]" | "[nin]" => {
                let listed: Vec<String> = (0..=r.below(3))
                    .filter_map(|_| query_text(r, field))
                    .collect();
                Some(
                    listed
                        .iter()
                        .map(|text| text.replace('\\', "\\\\").replace(',', "\\,"))
                        .collect::<Vec<_>>()
                        .join(","),
                )
            }
            "[has]" => Some(text(r)),
            "" | "[ne]" => related_key(r, desc, field).or_else(|| query_text(r, field)),
            _ => query_text(r, field),
        };
        if let Some(value) = value {
            call.query.push((format!("{}{op}", field.wire), value));
        }
    }
    if r.percent(45) {
        let sortable: Vec<&FieldDesc> = fields
            .iter()
            .copied()
            .filter(|f| f.flags.has(Flags::SORTABLE.or(Flags::PRIMARY)))
            .collect();
        let field = if r.percent(5) {
            *r.one(&fields)
        } else {
            *r.one(&sortable)
        };
        call.query.push(("sort".to_owned(), field.wire.to_owned()));
    }
    if r.percent(35) {
        call.query.push((
            "sortDir".to_owned(),
            (*r.one(&["asc", "desc", "desc", "up"])).to_owned(),
        ));
    }
    call.query.extend(pages(r, desc.paging, &[]));
}

/// The parameters of a page: limit and cursor, number and size, the name of a sort.
fn pages(r: &mut Random, paging: Paging, sorts: &[NamedSort]) -> Vec<(String, String)> {
    let numbered = paging != Paging::Limit;
    let mut out = Vec::new();
    let mut add = |name: &str, value: &str| out.push((name.to_owned(), value.to_owned()));
    if r.percent(60) {
        let limit = if r.percent(5) {
            *r.one(&["0", "-1", "x", "100000"])
        } else {
            *r.one(&["1", "2", "2", "3", "5"])
        };
        add(if numbered { "pageSize" } else { "limit" }, limit);
    }
    if numbered && r.percent(50) {
        let page = if r.percent(5) {
            *r.one(&["0", "x", "10001"])
        } else {
            *r.one(&["1", "2", "2", "3"])
        };
        add("page", page);
    }
    if !sorts.is_empty() && r.percent(70) {
        add(
            "sort",
            if r.percent(5) {
                "nothing"
            } else {
                r.one(sorts).name
            },
        );
    }
    if r.percent(4) {
        add("cursor", "<cursor>");
    }
    out
}

/// A value in the form of a query or path parameter; `None` for null and for values that have no
/// such form.
fn query_text(r: &mut Random, field: &FieldDesc) -> Option<String> {
    if field.flags.has(Flags::PRIMARY) && matches!(field.kind, Kind::String) && r.percent(80) {
        return Some("<samples:1>".to_owned());
    }
    match some_value(r, field) {
        Json::String(text) => Some(text),
        Json::Array(list) => list.first().and_then(Json::as_str).map(str::to_owned),
        Json::Object(_) => None,
        other => Some(other.to_string()),
    }
}

fn operation(
    r: &mut Random,
    spec: &'static OpSpec,
    in_path: bool,
    desc: &'static EntityDesc,
    call: &mut Call,
) {
    let mut members = Map::new();
    let mut whole_body = None;
    for param in spec.params {
        let field = param.field_of(desc);
        let given = if param.required { 97 } else { 60 };
        if !r.percent(given) {
            continue;
        }
        match param.place {
            Place::Body => drop(members.insert(param.name.to_owned(), argument(r, param, desc))),
            Place::Query | Place::Segment => {
                if in_path && param.place == Place::Segment {
                    continue;
                }
                if param.list {
                    let listed: Vec<String> = (0..=r.below(2))
                        .filter_map(|_| query_text(r, field))
                        .collect();
                    call.query.push((param.name.to_owned(), listed.join(",")));
                } else if param.nullable && r.percent(15) {
                    call.query
                        .push((format!("{}[null]", param.name), "true".to_owned()));
                } else if let Some(text) =
                    reference(r, param, desc).or_else(|| query_text(r, field))
                {
                    call.query.push((param.name.to_owned(), text));
                }
            }
            Place::Id => {}
            Place::Whole(Whole::Items) => whole_body = Some(some_value(r, field)),
            Place::Whole(Whole::Item) => {
                whole_body = Some(item(r, field.kind.item_fields(), false));
            }
            Place::Whole(Whole::Patch) => {
                let mut part = item(r, field.kind.item_fields(), true);
                if r.percent(95) {
                    part.as_object_mut()
                        .map(|members| (members.remove("id"), members.remove("number")));
                }
                whole_body = Some(part);
            }
        }
    }
    let paged = matches!(spec.kind.returns(), Answer::Page | Answer::List);
    if spec.kind.name() == "search" && spec.params.iter().all(|p| p.name != "q") && r.percent(98) {
        call.query.push(("q".to_owned(), text(r)));
    }
    let by_body = !matches!(call.method.as_str(), "GET");
    if by_body && spec.kind.paging() != Paging::Limit {
        // In a body, page parameters that are integers are JSON numbers.
        let value = |text: String| {
            text.parse::<i64>()
                .map_or_else(|_| json!(text), |number| json!(number))
        };
        members.extend(
            pages(r, spec.kind.paging(), spec.kind.sorts())
                .into_iter()
                .map(|(name, text)| (name, value(text))),
        );
    }
    if by_body && (whole_body.is_some() || !members.is_empty() || r.percent(20)) {
        call.body = Some(whole_body.unwrap_or(Json::Object(members)));
    } else if paged {
        call.query
            .extend(pages(r, spec.kind.paging(), spec.kind.sorts()));
    }
}

/// The key of a record, if a parameter refers to one.
fn reference(r: &mut Random, param: &ParamSpec, desc: &EntityDesc) -> Option<String> {
    let field = param.field_of(desc);
    if let Some(key) = related_key(r, param.entity.unwrap_or(desc), field) {
        return Some(key);
    }
    match field.wire {
        "accountId" => Some(format!("<accounts:{}>", r.below(3))),
        "id" if matches!(field.kind, Kind::String) => Some(format!(
            "<{}:{}>",
            param.entity.unwrap_or(desc).path,
            r.below(4)
        )),
        _ => None,
    }
}

fn argument(r: &mut Random, param: &ParamSpec, desc: &'static EntityDesc) -> Json {
    let field = param.field_of(desc);
    if let Some(text) = reference(r, param, desc)
        && r.percent(90)
    {
        // The client chooses the key of a new record.
        return if param.name == "key" {
            stored_value(r, desc, field)
        } else {
            json!(text)
        };
    }
    match field.kind {
        Kind::String if matches!(field.wire, "containerId" | "tallyId") => {
            stored_value(r, desc, field)
        }
        _ if param.list => (0..=r.below(3)).map(|_| value(r, field)).collect(),
        Kind::StringArray if param.element => json!(text(r)),
        Kind::Integer if field.flags.has(Flags::PRIMARY) => stored_value(r, desc, field),
        _ => value(r, field),
    }
}

/// Whether the values are in the same order on both sides. Generated uuids increase with time on
/// both sides; the order of generated cuids differs between the sides.
fn comparable(field: &FieldDesc) -> bool {
    !matches!(field.default, DefaultDesc::Cuid)
}

/// Whether the texts of a field are generated, or contain generated keys, so that they differ
/// between the sides.
fn has_generated_texts(desc: &EntityDesc, field: &FieldDesc) -> bool {
    let own = |field: &FieldDesc| matches!(field.default, DefaultDesc::Cuid | DefaultDesc::Uuid);
    own(field)
        || desc.gates.iter().any(|gate| {
            desc.fields[gate.field].name == field.name && own(gate.target.primary_field())
        })
}
