//! The route report: for every mounted route, the callers, the visible records, the cost and the
//! place of the declaration.

use std::collections::HashMap;
use std::fmt::Write;

use linchpin_vocabulary::kind::{Changes, Records};
use serde_json::{Value as Json, json};

use super::summaries;
use crate::Package;
use crate::emitter::plan::names_by_route;
use crate::entity::{EntityDesc, FieldSet, Flags, Paging, ScopeFrom};
use crate::http::{Action, AuthDesc, Endpoint, MiddlewareDesc, PermissionDesc, Transport};
use crate::openapi::requirements;
use crate::resource::computed;

/// A route in the report.
pub(super) struct Line {
    method: &'static str,
    path: String,
    entity: &'static str,
    name: String,
    kind: &'static str,
    /// The media type that the route streams.
    streams: Option<&'static str>,
    /// The protocol that the connection changes to.
    upgrades: Option<&'static str>,
    auth: &'static str,
    roles: &'static [&'static str],
    /// Guards by name, with their arguments; guards of the app also with their pattern.
    guards: Vec<Json>,
    permission: Option<&'static PermissionDesc>,
    audit: Option<&'static str>,
    /// Names and paths of functions, the first outermost.
    middleware: Vec<&'static str>,
    /// The context values that need a plugin.
    context: Vec<&'static str>,
    /// The row-level conditions on visible records: `ownerId = ctx(actor.id)`.
    scope: Vec<String>,
    unscoped: Option<&'static str>,
    events: Vec<String>,
    /// The maximum number of statements of a call; `None` if there is no maximum, because the
    /// number depends on code of the app or on the number of changed records.
    statements: Option<usize>,
    /// `limit` or `page` for routes that return pages: the kind of paging.
    paging: Option<&'static str>,
    /// The names of the sort orders of the route; the first is the default.
    sorts: Vec<&'static str>,
    /// The one-time members of the response.
    once: Vec<&'static str>,
    /// The paths that `include` may name; each path costs one more statement.
    include: Vec<&'static str>,
    at: String,
}

/// One line for each endpoint. `alone` says that a transaction of the store blocks all other
/// writes, which saves statements.
pub(super) fn lines(
    packages: &[&'static Package],
    endpoints: &[Endpoint],
    alone: bool,
) -> Vec<Line> {
    let entries = packages.iter().flat_map(|p| p.entities);
    let events: HashMap<&str, _> = entries
        .map(|entry| (entry.desc.storage_name, names_by_route(entry)))
        .collect();
    let line = |endpoint: &Endpoint| {
        let desc = endpoint.table.as_ref().map(|table| table.desc);
        let names =
            desc.and_then(|desc| events.get(desc.storage_name)?.get(endpoint.name.as_str()));
        let transport = endpoint
            .action
            .described()
            .map_or(Transport::Whole, |route| route.transport);
        let (kind, lifted) = match endpoint.action {
            Action::Operation(spec, _) => (spec.kind.name(), spec.unscoped),
            Action::Extra(_) => ("route", None),
            Action::Plugin(_) => (transport.kind(), None),
            _ => ("crud", None),
        };
        let lifted_reason = desc
            .filter(|_| kind != "route")
            .and_then(|desc| lifted_scope_reason(desc, &endpoint.name));
        Line {
            method: endpoint.method.as_str(),
            path: endpoint.path.clone(),
            entity: match endpoint.action {
                Action::Plugin(route) => route.of,
                _ => desc.map_or("", |desc| desc.name),
            },
            name: endpoint.name.clone(),
            kind,
            streams: match transport {
                Transport::Stream(media) => Some(media),
                Transport::Whole | Transport::Upgrade(_) => None,
            },
            upgrades: match transport {
                Transport::Upgrade(protocol) => Some(protocol),
                Transport::Whole | Transport::Stream(_) => None,
            },
            auth: match endpoint.policy.auth {
                AuthDesc::None => "none",
                AuthDesc::Named(name) => name,
            },
            roles: endpoint.policy.roles,
            guards: requirements::guards(endpoint),
            permission: endpoint.policy.permission,
            audit: endpoint.policy.audit.filter(|_| endpoint.changes()),
            middleware: endpoint.middleware().map(MiddlewareDesc::name).collect(),
            context: crate::http::context::needed(endpoint)
                .iter()
                .map(|desc| desc.name)
                .collect(),
            scope: desc
                .filter(|_| kind != "route")
                .map_or_else(Vec::new, |desc| {
                    scope(desc, &endpoint.name, lifted.is_some())
                }),
            unscoped: lifted.or(lifted_reason),
            events: names
                .filter(|_| kind != "route")
                .cloned()
                .unwrap_or_default(),
            statements: desc
                .filter(|desc| !deletes_dependents(packages, desc, endpoint))
                .and_then(|desc| statements(packages, endpoint, desc, alone)),
            paging: endpoint.pages().then(|| {
                if endpoint.paging() == Paging::Limit {
                    "limit"
                } else {
                    "page"
                }
            }),
            sorts: match endpoint.action {
                Action::Operation(spec, _) => {
                    spec.kind.sorts().iter().map(|sort| sort.name).collect()
                }
                _ => Vec::new(),
            },
            once: endpoint
                .policy
                .once
                .iter()
                .map(|field| field.wire)
                .collect(),
            include: desc
                .filter(|_| endpoint.includes())
                .map_or_else(Vec::new, |desc| {
                    desc.relations.iter().map(|r| r.wire).collect()
                }),
            at: endpoint.at.to_string(),
        }
    };
    endpoints.iter().map(line).collect()
}

/// The row-level conditions of a route: the tenant always, the scopes unless the route lifts them,
/// then the entity's own condition and the targets of its gates.
fn scope(desc: &EntityDesc, route: &str, unscoped: bool) -> Vec<String> {
    let wire = |field: usize| desc.fields[field].wire;
    let tenant = desc
        .tenant
        .iter()
        .map(|tenant| format!("{} = ctx(actor.tenantId)", wire(tenant.field)));
    let scopes = desc
        .scope
        .iter()
        .filter(|scope| !unscoped && scope.holds_on(route))
        .map(|scope| {
            let from = match scope.from {
                ScopeFrom::Path(name) => format!("param({name})"),
                ScopeFrom::Ctx(path) => format!("ctx({path})"),
            };
            format!("{} = {from}", wire(scope.field))
        });
    let visible = desc.visible.iter().map(|_| "visible".to_owned());
    let gates = desc.gates.iter().map(|gate| {
        let action = gate
            .action
            .map_or_else(String::new, |action| format!(", {action}"));
        let depth = if gate.depth > 0 {
            format!(", depth {}", gate.depth)
        } else {
            String::new()
        };
        format!(
            "gate({} -> {}{action}{depth})",
            wire(gate.field),
            gate.target.name
        )
    });
    tenant.chain(scopes).chain(visible).chain(gates).collect()
}

/// The reason why a scope does not apply to a route, as the scope declares it.
fn lifted_scope_reason(desc: &EntityDesc, route: &str) -> Option<&'static str> {
    desc.scope
        .iter()
        .filter(|scope| !scope.holds_on(route))
        .find_map(|scope| scope.unscoped)
}

/// A guard for human readers: `require_step_up(300)`, `require_role(admin) at /admin/{*rest}`.
fn guard(guard_json: &Json) -> String {
    let text = |value: &Json| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let argument = match &guard_json["argument"] {
        Json::Null => String::new(),
        Json::Array(list) => format!("({})", list.iter().map(text).collect::<Vec<_>>().join(", ")),
        one => format!("({})", text(one)),
    };
    let at = guard_json["path"]
        .as_str()
        .map_or_else(String::new, |path| format!(" at {path}"));
    format!("{}{argument}{at}", text(&guard_json["name"]))
}

/// A permission for human readers: `write or moderate, owner author_id`.
fn permission(declared: &PermissionDesc) -> String {
    let mut out = std::iter::once(&declared.requires)
        .chain(declared.or)
        .copied()
        .collect::<Vec<_>>()
        .join(" or ");
    for (word, field) in [
        ("owner", declared.owner_field),
        ("resource", declared.resource),
        ("rank", declared.rank),
    ] {
        if let Some(field) = field {
            // Writing to a String cannot fail.
            let _ = write!(out, ", {word} {field}");
        }
    }
    if declared.hide { out + ", hides" } else { out }
}

/// Whether deleting a record, or marking it as deleted, changes records that refer to it. The
/// number of statements then depends on the number of those records.
fn deletes_dependents(
    packages: &[&'static Package],
    desc: &EntityDesc,
    endpoint: &Endpoint,
) -> bool {
    let changes = changes(endpoint);
    let deletes = match endpoint.action {
        Action::Delete => true,
        Action::Operation(spec, _) if changes.may_delete() || changes == Changes::One => {
            let touched = spec.kind.touches(desc);
            touched == FieldSet::ALL
                || desc
                    .soft_delete
                    .is_some_and(|mark| touched.has(mark.field()))
        }
        _ => false,
    };
    let mut relations = packages
        .iter()
        .flat_map(|p| p.entities)
        .flat_map(|entry| entry.desc.relations);
    deletes
        && relations
            .any(|r| r.enforced().is_some() && (r.target)().storage_name == desc.storage_name)
}

/// The statements that computed fields add to a call; `None` if their number depends on the number
/// of different computed values. A call that changes a single record reads it before the change
/// instead of after the change, so it needs no further statement.
fn computed_field_statements(endpoint: &Endpoint, desc: &EntityDesc) -> Option<usize> {
    let Action::Operation(spec, _) = endpoint.action else {
        return Some(0);
    };
    let mark = desc.soft_delete.map(|mark| mark.field());
    let written = |field: usize| {
        let always = desc.fields[field]
            .flags
            .has(Flags::ON_UPDATE.or(Flags::VERSION))
            || desc.ttl.is_some_and(|ttl| ttl.field == field);
        always || mark == Some(field) || spec.kind.writes(field).is_some()
    };
    let has_dependents = || !computed::affected(desc, written).is_empty();
    let facts = spec.kind.facts();
    match facts.changes {
        // The existing record is read before the change, and again if another call has created it
        // concurrently.
        Changes::NewOrOne => Some(if has_dependents() { 2 } else { 0 }),
        Changes::Many => (!has_dependents()).then_some(0),
        Changes::Removed => (mark.is_none() || !has_dependents()).then_some(0),
        // The call writes a record of another entity.
        Changes::One if facts.records == Records::Foreign => {
            let target = spec.kind.answers().unwrap_or(desc);
            Some(usize::from(
                target.fields.iter().any(|field| field.computed.is_some()),
            ))
        }
        Changes::Nothing | Changes::New | Changes::One | Changes::Restored | Changes::Unknown => {
            Some(0)
        }
    }
}

/// Whether a call that changes one record reads it for its computed fields.
fn reads_record_first(endpoint: &Endpoint, desc: &EntityDesc) -> bool {
    let mark = desc.soft_delete.map(|mark| mark.field());
    let written = |field: usize| {
        let flags = desc.fields[field].flags;
        match endpoint.action {
            Action::Delete => {
                mark == Some(field)
                    || (mark.is_some() && flags.has(Flags::ON_UPDATE.or(Flags::VERSION)))
            }
            Action::Update => {
                desc.fields[field].updatable() || flags.has(Flags::ON_UPDATE.or(Flags::VERSION))
            }
            _ => endpoint.touches().has(field),
        }
    };
    !computed::affected(desc, written).is_empty()
}

/// The changes that a call makes to records of the entity.
fn changes(endpoint: &Endpoint) -> Changes {
    match endpoint.action {
        Action::Create => Changes::New,
        Action::List | Action::Get => Changes::Nothing,
        Action::Update => Changes::One,
        Action::Delete => Changes::Removed,
        Action::Operation(spec, _) => spec.kind.facts().changes,
        Action::Extra(_) | Action::Plugin(_) => Changes::Unknown,
    }
}

/// The maximum number of statements of one call, without retries.
fn statements(
    packages: &[&'static Package],
    endpoint: &Endpoint,
    desc: &EntityDesc,
    alone: bool,
) -> Option<usize> {
    if endpoint.run.is_some() {
        return None;
    }
    if endpoint.policy.audit.is_some() && endpoint.changes() {
        // Each changed record adds a statement.
        return None;
    }
    // If nothing was changed, one more statement finds the reason. A `check` of the entity needs
    // the whole record, so the record is read before the change.
    let (base, one_record) = match endpoint.action {
        Action::Create | Action::List => (1, false),
        Action::Get => (1, true),
        Action::Update => (if desc.check.is_some() { 3 } else { 2 }, true),
        Action::Delete => (2, true),
        Action::Operation(spec, _) => (
            spec.kind.statements(desc)? + computed_field_statements(endpoint, desc)?,
            spec.kind.by_id(),
        ),
        Action::Extra(_) | Action::Plugin(_) => return None,
    };
    // For each written foreign key, a statement reads the record that it refers to. Restoring a
    // record checks all its foreign keys.
    let changed = changes(endpoint);
    let restores = changed == Changes::Restored;
    let writes = |field: usize| match endpoint.action {
        Action::Create | Action::Update => true,
        Action::Operation(..) if restores => true,
        Action::Operation(spec, _) => spec.kind.writes(field).is_some(),
        _ => false,
    };
    let relations = desc
        .relations
        .iter()
        .filter_map(|r| Some(((r.target)(), r.enforced()?.0)));
    let gates = desc.gates.iter().map(|gate| (gate.target, gate.field));
    let is_gate_key = |of: &EntityDesc, field| {
        desc.gates
            .iter()
            .any(|g| g.field == field && g.target.storage_name == of.storage_name)
    };
    let foreign_keys = relations
        .filter(|(of, field)| !is_gate_key(of, *field))
        .chain(gates);
    let keys = foreign_keys.filter(|(_, field)| writes(*field)).count();
    // A restored record is read, because its foreign keys are checked.
    let read = usize::from(restores && keys > 0);
    let counter_statements =
        summaries::cost(packages, desc, endpoint.touches(), changed, alone)? + read;
    // `base` includes the statement that finds the reason if nothing was changed. Such a call
    // changes no counter, so one statement is subtracted. Exception: if the call reads the record
    // for its computed fields, it reads the record again for the counters.
    let counter_statements =
        if one_record && !(counter_statements > 0 && reads_record_first(endpoint, desc)) {
            counter_statements.saturating_sub(1)
        } else {
            counter_statements
        };
    // One more statement distinguishes a refused record from a missing record.
    Some(
        base + keys
            + counter_statements
            + usize::from(one_record && endpoint.policy.permission.is_some()),
    )
}

/// The report for human readers.
pub(super) fn table(lines: &[Line]) -> String {
    let head = [
        "METHOD",
        "PATH",
        "ENTITY",
        "ROUTE",
        "KIND",
        "AUTH",
        "ROLES",
        "GUARDS",
        "PERMISSION",
        "MIDDLEWARE",
        "SCOPE",
        "EVENT",
        "STATEMENTS",
        "SOURCE",
    ];
    let row = |line: &Line| {
        [
            line.method.to_owned(),
            line.path.clone(),
            line.entity.to_owned(),
            line.name.clone(),
            match line.streams.or(line.upgrades) {
                None => line.kind.to_owned(),
                Some(what) => format!("{} {what}", line.kind),
            },
            line.auth.to_owned(),
            line.roles.join(","),
            line.guards.iter().map(guard).collect::<Vec<_>>().join(", "),
            line.permission.map(permission).unwrap_or_default(),
            line.middleware.join(", "),
            match line.unscoped {
                Some(_) if line.scope.is_empty() => "unscoped".to_owned(),
                Some(_) => format!("{}, unscoped", line.scope.join(", ")),
                None => line.scope.join(", "),
            },
            line.events.join(", "),
            match (line.statements, line.include.is_empty()) {
                (None, _) => "-".to_owned(),
                (Some(n), true) => n.to_string(),
                (Some(n), false) => format!("{n} +1/include"),
            },
            line.at.clone(),
        ]
    };
    let rows: Vec<[String; 14]> = std::iter::once(head.map(str::to_owned))
        .chain(lines.iter().map(row))
        .collect();
    let mut widths = [0; 14];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(widths) {
            // Writing to a String cannot fail.
            let _ = write!(out, "{cell:<width$}  ");
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    let mut reasons: Vec<String> = Vec::new();
    for line in lines {
        if let Some(reason) = line.unscoped {
            let reason = format!("  {} {}: {reason}\n", line.entity, line.name);
            // The variants of one operation share their reason.
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    if !reasons.is_empty() {
        out.push_str("\nunscoped:\n");
        out.extend(reasons);
    }
    out.truncate(out.trim_end().len());
    out
}

/// The report as JSON. The guide documents the keys; they are stable.
pub(super) fn json(lines: &[Line]) -> String {
    let rows = lines.iter().map(|line| {
        json!({
            "method": line.method, "path": line.path, "entity": line.entity, "route": line.name, "kind": line.kind,
            "streams": line.streams, "upgrades": line.upgrades, "auth": line.auth, "roles": line.roles, "guards": line.guards, "permission": line.permission.map(requirements::permission),
            "middleware": line.middleware, "audit": line.audit, "context": line.context, "scope": line.scope, "unscoped": line.unscoped,
            "events": line.events, "statements": line.statements, "paging": line.paging, "sorts": line.sorts, "include": line.include,
            "once": line.once, "source": line.at,
        })
    });
    Json::Array(rows.collect()).to_string()
}
