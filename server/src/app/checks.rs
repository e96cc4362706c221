//! Checks at start-up before a store or a port is opened: names, dependencies, routes, overrides,
//! auth.

mod names;

use std::sync::Arc;

use super::overrides::RouteOverride;
use super::plugin::Plugin;
use super::setup::RoutesCx;
use super::start::mounted;
use crate::audit::AuditLog;
use crate::entity::{DefaultDesc, ScopeFrom, SourceLine};
use crate::http::{Action, ContextProviders, Endpoint, PathGuard, RouteGuard};
use crate::resource::{Adapters, CursorKey, Table};
use crate::store::{Store, memory::Memory};
use crate::suggest::did_you_mean;
use crate::{Code, ContextDesc, EntityEntry, Error, Package, Problem, Result};
use linchpin_core::causes;
use linchpin_core::package::find_duplicates;

pub(super) use self::names::known_names;
pub(super) use crate::startup::startup;

/// The text of an error: all its causes on one line, then one line for each detail. A single detail
/// is on the line of the causes. The public messages `Internal error` and `The request is not
/// valid` are left out, because they contain no information.
pub(super) fn error_text(error: &Error) -> String {
    let mut causes: Vec<String> = causes(error).map(ToString::to_string).collect();
    let details = error.details();
    let is_general = match error.code() {
        Code::Internal => !causes.is_empty(),
        Code::ValidationFailed => {
            !details.is_empty() && error.message() == Error::validation(Vec::new()).message()
        }
        _ => false,
    };
    if !is_general {
        causes.insert(0, error.message().to_owned());
    }
    let shown = |problem: &Problem| format!("{}: {}", problem.path, problem.message);
    match details {
        [] => {}
        [one] => causes.push(shown(one)),
        several => {
            let lines = several
                .iter()
                .map(|problem| format!("\n  {}", shown(problem)));
            causes.push(format!(
                "{} problems{}",
                several.len(),
                lines.collect::<String>()
            ));
        }
    }
    causes.join(": ")
}

/// The plugins in an order in which each one follows its dependencies.
pub(super) fn in_setup_order(
    plugins: Vec<Box<dyn Plugin>>,
    packages: &[&'static Package],
) -> Result<Vec<Box<dyn Plugin>>> {
    let mut problems = Vec::new();
    let mut names: Vec<&str> = packages
        .iter()
        .map(|p| p.name)
        .chain(plugins.iter().map(|p| p.name()))
        .collect();
    names.sort_unstable();
    problems.extend(
        names
            .windows(2)
            .filter(|w| w[0] == w[1])
            .map(|w| format!("two plugins or packages are named `{}`", w[0])),
    );
    let needs = packages
        .iter()
        .flat_map(|p| p.dependencies.iter().map(|d| (p.name, *d)));
    let needs = needs.chain(
        plugins
            .iter()
            .flat_map(|p| p.dependencies().iter().map(|d| (p.name(), *d))),
    );
    problems.extend(needs.filter(|(_, d)| !names.contains(d)).map(|(who, d)| {
        format!(
            "`{who}` depends on `{d}`, which is neither a plugin nor a package of this app{}",
            did_you_mean(d, names.iter().copied())
        )
    }));
    problems.extend(shared_storage(packages));
    problems.extend(unlisted(packages));
    if !problems.is_empty() {
        return Err(startup(problems.join("\n")));
    }
    let plugin_names: Vec<String> = plugins.iter().map(|p| p.name().to_owned()).collect();
    let mut waiting = plugins;
    let mut done: Vec<Box<dyn Plugin>> = Vec::new();
    while !waiting.is_empty() {
        let is_ready = |p: &dyn Plugin| {
            p.dependencies().iter().all(|d| {
                !plugin_names.iter().any(|n| n == d) || done.iter().any(|r| r.name() == *d)
            })
        };
        match waiting.iter().position(|p| is_ready(p.as_ref())) {
            Some(next) => done.push(waiting.remove(next)),
            None => {
                let names: Vec<String> =
                    waiting.iter().map(|p| format!("`{}`", p.name())).collect();
                return Err(startup(format!(
                    "plugins depend on each other in a cycle: {}",
                    names.join(", ")
                )));
            }
        }
    }
    Ok(done)
}

/// Entities that would share a table.
fn shared_storage(packages: &[&'static Package]) -> Vec<String> {
    let entities: Vec<_> = packages
        .iter()
        .flat_map(|p| p.entities.iter().map(move |e| (p.name, e.desc)))
        .collect();
    let mut problems = Vec::new();
    for (i, (package, desc)) in entities.iter().enumerate() {
        let Some((first, other)) = entities[..i]
            .iter()
            .find(|(_, other)| other.storage_name == desc.storage_name)
        else {
            continue;
        };
        problems.push(if std::ptr::eq(*other, *desc) {
            format!("entity `{}` is in package `{first}` and again in package `{package}`", desc.name)
        } else {
            format!(
                "entities `{}` and `{}` share the storage name `{}`; give one a namespace or storage_name",
                other.name, desc.name, desc.storage_name
            )
        });
    }
    problems
}

/// Entities whose records are never visible, because the target of their gates is missing.
fn unlisted(packages: &[&'static Package]) -> Vec<String> {
    let entities: Vec<_> = packages
        .iter()
        .flat_map(|p| p.entities.iter().map(|entry| entry.desc))
        .collect();
    let listed = |storage: &str| entities.iter().any(|desc| desc.storage_name == storage);
    let missing = entities
        .iter()
        .flat_map(|desc| desc.gates.iter().map(move |gate| (*desc, gate)));
    let missing = missing.filter(|(_, gate)| !listed(gate.target.storage_name));
    missing
        .map(|(desc, gate)| {
            let (field, at) = (desc.fields.get(gate.field).map_or("", |field| field.name), desc.at);
            let (entity, target) = (desc.name, gate.target.name);
            format!("gate `{field}` of `{entity}` ({at}) refers to `{target}`, but no package of this app lists it")
        })
        .collect()
}

/// The route table. It is built over an empty in-memory store that no call uses. So mistakes are
/// found before the store of the app is opened, and the command `routes` needs no store.
pub(super) fn planned(packages: &[&'static Package]) -> Result<Vec<Endpoint>> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let key = CursorKey::derive::<&[u8]>(&[]);
    let entries = packages.iter().flat_map(|p| p.entities);
    let tables = entries
        .map(|e| {
            Ok(Arc::new(Table::new(
                e.desc,
                Arc::clone(&store),
                key.clone(),
            )?))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(mounted(packages, &Adapters::new(tables)))
}

/// Duplicate routes, and overrides without a route.
pub(super) fn routes(packages: &[&'static Package], overrides: &[RouteOverride]) -> Result<()> {
    let endpoints = planned(packages)?;
    let mut problems = find_duplicates(packages);
    for (i, replacement) in overrides.iter().enumerate() {
        let (entity, name) = (replacement.entity.name, replacement.name);
        if !endpoints.iter().any(|e| replacement.is_of(e)) {
            let known = endpoints
                .iter()
                .filter(|e| entity_of(e) == entity)
                .map(|e| e.name.as_str());
            problems.push(format!(
                "the override of `{name}` of `{entity}` replaces nothing: no such route is mounted{}",
                did_you_mean(name, known)
            ));
        }
        if overrides[..i]
            .iter()
            .any(|other| other.name == name && std::ptr::eq(other.entity, replacement.entity))
        {
            problems.push(format!("`{name}` of `{entity}` is overridden twice"));
        }
    }
    for endpoint in endpoints
        .iter()
        .filter(|endpoint| !endpoint.policy.once.is_empty())
    {
        let custom = matches!(endpoint.action, Action::Operation(spec, _) if spec.kind.runs_code());
        if !custom
            && !overrides
                .iter()
                .any(|replacement| replacement.is_of(endpoint))
        {
            let (entity, name) = (entity_of(endpoint), &endpoint.name);
            let members = endpoint
                .policy
                .once
                .iter()
                .map(|field| format!("`{}`", field.name))
                .collect::<Vec<_>>()
                .join(", ");
            problems.push(format!("`{name}` of `{entity}` declares `output_once` for {members}, but no code sets it: override the route"));
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(startup(problems.join("\n")))
    }
}

/// Routes of plugins that are unreachable, because an entity's route has the same path.
pub(super) fn shadowed(paths: &[String], endpoints: &[Endpoint]) -> Vec<String> {
    let shape = |path: &str| -> Vec<String> {
        let segments = path.split('/').filter(|s| !s.is_empty());
        segments
            .map(|s| {
                if s.starts_with('{') {
                    "{}".to_owned()
                } else {
                    s.to_owned()
                }
            })
            .collect()
    };
    let found = paths.iter().filter_map(|path| {
        let taken = endpoints.iter().find(|e| shape(&e.path) == shape(path))?;
        let (method, at) = (taken.method.as_str(), taken.at);
        Some(format!(
            "duplicate route {path}: a plugin's route and {method} {} of {} ({at}); set another path for the route of the plugin, or override the other route",
            taken.path,
            entity_of(taken)
        ))
    });
    found.collect()
}

/// The name of the entity or plugin that has the route.
fn entity_of(endpoint: &Endpoint) -> &'static str {
    match endpoint.action {
        Action::Plugin(desc) => desc.of,
        _ => endpoint.table.as_ref().map_or("", |t| t.desc.name),
    }
}

/// Whether any route is audited.
///
/// # Errors
/// If a package lists the entity of the audit log: routes must not change its entries.
pub(super) fn audited(packages: &[&'static Package], plugins: &[Box<dyn Plugin>]) -> Result<bool> {
    let entries = || {
        packages
            .iter()
            .flat_map(|p| p.entities.iter().map(move |entry| (p.name, entry)))
    };
    if let Some((package, _)) =
        entries().find(|(_, entry)| entry.desc.storage_name == AuditLog::entity().storage_name)
    {
        let entity = AuditLog::entity().name;
        return Err(startup(format!(
            "package `{package}` lists `{entity}`, an entity of the framework: read it with `AuditLog`"
        )));
    }
    let own = entries().any(|(_, entry)| {
        let crud = entry.desc.routes.iter().chain([&entry.desc.defaults]);
        let operations = entry.mounted().map(|spec| &spec.policy);
        crud.chain(operations)
            .chain(entry.routes.iter().map(|route| &route.policy))
            .any(|policy| policy.audit.is_some())
    });
    Ok(own
        || plugins
            .iter()
            .flat_map(|plugin| plugin.routes())
            .any(|route| route.desc.policy.audit.is_some()))
}

/// Checks that every context value that a declaration reads has a provider, and has the type that
/// the declaration was checked against.
///
/// # Errors
/// All missing values.
pub(super) fn context(
    entries: &[&'static EntityEntry],
    providers: &ContextProviders,
) -> Result<()> {
    let mut problems = Vec::new();
    let mut check = |what: String, at: SourceLine, desc: ContextDesc| {
        let name = desc.name;
        match providers.kind_of(name) {
            None => problems.push(format!(
                "{what} ({at}) reads `ctx({name})`, but no plugin provides it{}",
                did_you_mean(name, providers.names())
            )),
            Some(kind) if !kind.meets(desc.kind) => problems.push(format!(
                "{what} ({at}) reads `ctx({name})` as {}, but a plugin provides it as {}",
                desc.kind.name(),
                kind.name()
            )),
            Some(_) => {}
        }
    };
    for entry in entries {
        let desc = entry.desc;
        let of_fields = desc.fields.iter().filter_map(|field| match field.default {
            DefaultDesc::Ctx(path) => {
                Some((format!("field `{}` of `{}`", field.name, desc.name), path))
            }
            _ => None,
        });
        let of_scopes = desc.scope.iter().filter_map(|scope| match scope.from {
            ScopeFrom::Ctx(path) => Some((
                format!(
                    "scope `{}` of `{}`",
                    desc.fields[scope.field].name, desc.name
                ),
                path,
            )),
            ScopeFrom::Path(_) => None,
        });
        let of_gates = crate::resource::gate::context(desc)
            .into_iter()
            .map(|path| (format!("visibility of `{}`", desc.name), path));
        for (what, path) in of_fields.chain(of_scopes).chain(of_gates) {
            if let Some(value) = crate::http::context::provided_value(path) {
                check(what, desc.at, value);
            }
        }
        for spec in entry.operations {
            for value in spec.context {
                check(
                    format!("operation `{}` of `{}`", spec.name, desc.name),
                    spec.at,
                    *value,
                );
            }
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    problems.push("help: `cx.provide(name, ..)` in the `setup_middleware` of a plugin".to_owned());
    Err(startup(problems.join("\n")))
}

/// Parses the patterns of path guards; an error if any of them is malformed.
pub(super) fn patterns(guards: &[(String, RouteGuard)]) -> Result<Vec<PathGuard>> {
    let (mut good, mut problems) = (Vec::new(), Vec::new());
    for (pattern, guard) in guards {
        match PathGuard::new(pattern, guard.clone()) {
            Ok(guard) => good.push(guard),
            Err(what) => problems.push(format!("guard of `{pattern}`: {what}")),
        }
    }
    if problems.is_empty() {
        Ok(good)
    } else {
        Err(startup(problems.join("\n")))
    }
}

/// Guards whose pattern matches no route.
pub(super) fn unused_guards(
    guards: &[PathGuard],
    endpoints: &[Endpoint],
    routes: &RoutesCx,
) -> Vec<String> {
    let idle = guards.iter().filter(|guard| {
        let mut all = endpoints
            .iter()
            .map(|e| &e.path)
            .chain(&routes.paths)
            .chain(&routes.areas);
        !all.any(|path| guard.may_match(path))
    });
    idle.map(|guard| {
        format!(
            "guard of `{}`: no route matches this pattern; the command `routes` lists the routes of packages",
            guard.pattern()
        )
    })
    .collect()
}

/// Checks that the database accepts the SQL texts of custom operations; reports all refused texts
/// together.
pub(super) async fn sql(entries: &[&EntityEntry], adapters: &Adapters) -> Result<()> {
    let mut problems = Vec::new();
    for entry in entries {
        let Some(table) = adapters.table(entry.desc.storage_name) else {
            continue;
        };
        for spec in entry.mounted() {
            for text in spec.kind.texts() {
                // A store without SQL runs no SQL texts.
                let Ok(sql) = table.sql() else { continue };
                if let Err(error) = sql.check(entry.desc, text).await {
                    problems.push(format!(
                        "custom operation `{}` ({}): {}\n  in: {text}",
                        spec.name,
                        spec.at,
                        error_text(&error)
                    ));
                }
            }
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(startup(problems.join("\n")))
    }
}
