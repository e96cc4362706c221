//! Start-up: the steps in a fixed order, so that all mistakes are found before the port is opened.

use std::sync::Arc;

use super::AfterAdapters;
use super::build::App;
use super::capabilities;
use super::checks::{self, startup};
use super::config::Environment;
use super::migrate;
use super::overrides::RouteOverride;
use super::own::own_routes;
use super::plugin::Plugin;
use super::registrar::Registrar;
use super::rekey;
use super::running::{Built, Running, Signals};
use super::schema;
use super::setup::{MiddlewareCx, MountedRoute, PostCx, RoutesCx};
use super::states;
use super::stores::Stores;
use crate::audit::AuditLog;
use crate::http::{self, Claims, ContextProviders, Endpoint, HttpState, Layers, idempotency};
use crate::resource::{Adapters, CursorKey, Table};
use crate::seal::DataKeys;
use crate::store::Store;
use crate::{Error, Package, Result};
use linchpin_migrate::Mode;

impl App {
    /// Starts everything and listens. The app serves until the returned handle is stopped or
    /// dropped.
    ///
    /// # Errors
    /// All mistakes in the app, before the port is opened; or the port is taken.
    pub async fn start(self) -> Result<Running> {
        let config = self.config.clone();
        let built = self.build().await?;
        built.listen(&config).await
    }

    /// Serves until SIGINT or SIGTERM, then finishes the accepted requests.
    ///
    /// # Errors
    /// Like [`App::start`].
    pub async fn serve(self) -> Result<()> {
        super::command::log(&self.config);
        // The handlers are installed before the port is open: a signal that arrives right after it
        // must not cut accepted requests.
        let mut signals = Signals::new()?;
        let running = tokio::select! {
            biased;
            started = self.start() => started?,
            status = signals.next() => std::process::exit(status),
        };
        tracing::info!("listening on http://{}", running.address());
        running.until(signals).await
    }

    /// Steps 1 to 13 of start-up.
    pub(crate) async fn build(self) -> Result<Built> {
        let (info, security) = (self.info(), self.security());
        let Self {
            config,
            plugins,
            packages,
            clock,
            mut overrides,
            sweep_every,
            rates,
            hooks,
            guards,
            audit,
            keep_audit,
            mut events,
            mut searches,
            store: own_store,
            providers,
            migrations,
            ..
        } = self;
        let stores = Stores::new(&config, &providers);
        stores.check()?;
        let (config, secrets) = config.checked(&stores)?;
        let plugins = checks::in_setup_order(plugins, &packages)?;
        for warning in states::unreachable(&packages) {
            tracing::warn!("{warning}");
        }
        overrides.extend(plugins.iter().flat_map(|plugin| plugin.overrides()));
        let entries = || packages.iter().flat_map(|p| p.entities);

        // This check comes first: if the store is missing, its capabilities do not matter.
        let kind = match &own_store {
            Some(store) => store.kind(),
            None => stores.kind(&config.database)?,
        };
        let supports = |capability: &str| match &own_store {
            Some(store) => store.supports(capability),
            None => kind.grants(capability),
        };
        capabilities::check(entries(), kind.name, supports, &stores.kinds())?;
        super::summaries::check(entries())?;
        checks::routes(&packages, &overrides)?;
        let guards = checks::patterns(&guards)?;
        let audited = checks::audited(&packages, &plugins)? || audit;

        let store: Arc<dyn Store> = own_store.map_or_else(|| stores.open(&config.database), Ok)?;
        let mut built = Built::new(Arc::clone(&store), config.grace);
        let done: Result<http::HttpService> = async {
            let mode = match config.environment {
                Environment::Development => Mode::Development,
                Environment::Production => Mode::Production,
            };
            let known = || migrate::known(&packages, &migrations);
            built.lease_task = schema::open(&store, known, mode, config.schema_check).await?;
            let lease = built
                .lease_task
                .as_ref()
                .map(|lease_task| lease_task.lease.clone());
            let has_idempotent_routes = entries().any(idempotency::has_idempotent_route);
            let claims = has_idempotent_routes
                .then(|| Claims::new(&store))
                .transpose()?
                .map(Arc::new);
            let keys: Vec<&[u8]> = secrets.iter().map(super::SigningSecret::expose).collect();
            let cursors = CursorKey::derive(&keys);
            let mut tables = Vec::new();
            for entry in entries() {
                let table = Arc::new(
                    Table::new(entry.desc, Arc::clone(&store), cursors.clone())?.bounded(entry),
                );
                tables.push(table);
            }
            let audit = audited
                .then(|| AuditLog::new(&store, cursors.clone(), keep_audit))
                .transpose()?;
            let adapters = Adapters::new(tables.iter().cloned())
                .with_events(events.bus.clone())
                .timed_by(&clock);
            events.set_adapters(&adapters);
            if let Some(log) = &audit {
                log.table().timed_by(&clock);
                adapters.provide(log.clone());
            }
            // Statements are planned now, so that a statement that the store refuses is a start-up
            // error.
            for entry in entries() {
                if let Some(table) = adapters.table(entry.desc.storage_name) {
                    for spec in entry.mounted() {
                        table.executor(spec)?;
                    }
                }
            }
            let entries: Vec<_> = entries().collect();
            // This is called again below. Changes by hooks and plugins are recorded for the
            // existing consumers, and hooks and plugins may add further consumers.
            events.activate(&entries, &tables, &store).await?;
            for package in &packages {
                if let Some(hook) = package.after_adapters {
                    let wrong_version = || {
                        startup(format!(
                            "after_adapters of package `{}` is a hook of another version of linchpin",
                            package.name
                        ))
                    };
                    let hook = hook.downcast_ref::<AfterAdapters>().ok_or_else(wrong_version)?;
                    let failed = |e| {
                        startup(format!(
                            "after_adapters of package `{}` failed: {}",
                            package.name,
                            checks::error_text(&e)
                        ))
                    };
                    hook(adapters.clone()).await.map_err(failed)?;
                }
            }
            for hook in hooks {
                hook(adapters.clone()).await.map_err(|e| {
                    startup(format!(
                        "an after_adapters hook failed: {}",
                        checks::error_text(&e)
                    ))
                })?;
            }
            // Checked after the hooks, because a hook may create the tables and views that an SQL
            // text reads.
            checks::sql(&entries, &adapters).await?;

            let mut middleware = MiddlewareCx {
                secrets: secrets.clone(),
                data_keys: config.data_keys.clone(),
                clock: Arc::clone(&clock),
                environment: config.environment,
                resolver: None,
                credentials: None,
                adapters: adapters.clone(),
                context: ContextProviders::default(),
                layers: Layers::default(),
                cors: vec![config.cors.clone()],
            };
            let mut routes = RoutesCx {
                adapters: adapters.clone(),
                ..RoutesCx::default()
            };
            for plugin in plugins {
                let plugin = built.add(plugin);
                plugin
                    .setup_middleware(&mut middleware)
                    .await
                    .map_err(|e| failed(plugin, &e))?;
            }
            let data_keys = std::mem::take(&mut middleware.data_keys);
            if !data_keys.is_empty() {
                routes.data_keys = Some(Arc::new(DataKeys::new(data_keys)?));
            }
            for plugin in built.plugins() {
                plugin
                    .setup_routes(&mut routes)
                    .await
                    .map_err(|e| failed(plugin, &e))?;
            }
            let mut endpoints = mounted(&packages, &adapters);
            endpoints.extend(http::plugin_endpoints(
                built.plugins().flat_map(Plugin::routes).collect(),
            ));
            apply(&overrides, &mut endpoints);
            http::guard(&guards, &mut endpoints);
            let mut post = PostCx {
                adapters: adapters.clone(),
                registrar: Registrar::default(),
                data_keys: routes.data_keys.clone(),
                clock: Arc::clone(&clock),
                environment: config.environment,
                listens_on: Arc::clone(&built.listens_on),
                credentials: middleware.credentials.clone(),
                cors: middleware.cors.clone(),
                caller: http::RouteCaller::default(),
                rates: rates.unwrap_or_else(|| Arc::new(http::RatesInProcess::default())),
                entities: entries.clone(),
                routes: known_routes(&endpoints, &routes.paths),
            };
            for plugin in built.plugins() {
                plugin
                    .setup_post(&mut post)
                    .await
                    .map_err(|e| failed(plugin, &e))?;
            }
            rekey::prepare(&mut post).await?;
            events.add_consumers(std::mem::take(&mut post.registrar.consumers));
            searches.extend(std::mem::take(&mut post.registrar.searches));
            let feeds = built
                .searches
                .open(searches, &entries, &tables, &store, &clock)
                .await?;
            events.add_consumers(feeds);
            events.activate(&entries, &tables, &store).await?;
            let registry = std::mem::take(&mut post.registrar.registry);
            checks::context(&entries, &middleware.context)?;
            let auth =
                checks::known_names(post.registrar.auth.take(), &registry, &endpoints, &guards)?;
            if let Some(evaluator) = &registry.evaluator {
                for table in &tables {
                    table.evaluated_by(evaluator);
                }
            }
            if !middleware.context.is_empty() {
                routes.router = http::after_providers(routes.router);
            }
            let documented = (&endpoints[..], &security[..]);
            let served = (&store, lease.as_ref(), &events.health);
            let own = own_routes(&mut routes, &config, &info, documented, served);
            routes
                .problems
                .extend(checks::shadowed(&routes.paths, &endpoints));
            routes
                .problems
                .extend(checks::unused_guards(&guards, &endpoints, &routes));
            if !routes.problems.is_empty() {
                return Err(startup(routes.problems.join("\n")));
            }

            // The checks are done; after this line, only the route table can refuse a route. The
            // indexes already get every change, so the rebuild misses none.
            built.indexing = built.searches.build_incomplete().await;
            built.adapters = adapters.clone();
            built.endpoints.clone_from(&endpoints);
            let mut state = HttpState::new(adapters);
            state.resolver = middleware.resolver;
            state.context = middleware.context;
            state.own = own;
            state.layers = middleware.layers;
            state.auth = auth;
            state.registry = registry;
            state.guards = guards;
            state.rates = Arc::clone(&post.rates);
            built.sweep = Some((Arc::clone(&clock), sweep_every));
            built.events = events;
            state.clock = clock;
            state.lease = lease;
            state.bodies = config.bodies;
            built.claims.clone_from(&claims);
            state.claims = claims;
            built.audit.clone_from(&audit);
            state.audit = audit;
            middleware.cors.retain(|list| !list.origins.is_empty());
            state.cors = middleware.cors;
            state.extra = routes.router;
            state.extra_paths = routes.paths;
            let service = http::service(endpoints, state)?;
            service.reachable_by(&post.caller);
            Ok(service)
        }
        .await;
        match done {
            Ok(service) => {
                built.service = Some(service);
                Ok(built)
            }
            Err(error) => {
                built.undo().await;
                Err(error)
            }
        }
    }
}

/// All endpoints of the packages.
pub(super) fn mounted(packages: &[&'static Package], adapters: &Adapters) -> Vec<Endpoint> {
    packages
        .iter()
        .flat_map(|p| http::endpoints(p, p.mount, adapters))
        .collect()
}

/// The routes of the app, as plugins see them at start-up.
fn known_routes(endpoints: &[Endpoint], paths: &[String]) -> Vec<MountedRoute> {
    let described = endpoints.iter().map(|endpoint| MountedRoute {
        method: endpoint.method.as_str(),
        path: endpoint.path.clone(),
        plugin: match endpoint.action {
            http::Action::Plugin(desc) => Some(desc.of),
            _ => None,
        },
    });
    let others = paths.iter().map(|path| MountedRoute {
        method: "ANY",
        path: path.clone(),
        plugin: None,
    });
    described.chain(others).collect()
}

fn failed(plugin: &dyn Plugin, error: &Error) -> Error {
    startup(format!(
        "plugin `{}` cannot start: {}",
        plugin.name(),
        checks::error_text(error)
    ))
}

/// Replaces the executors of overridden routes.
pub(super) fn apply(overrides: &[RouteOverride], endpoints: &mut [Endpoint]) {
    for replacement in overrides {
        for endpoint in endpoints.iter_mut().filter(|e| replacement.is_of(e)) {
            endpoint.run = Some(Arc::clone(&replacement.run));
        }
    }
}
