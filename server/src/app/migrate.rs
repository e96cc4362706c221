//! The commands `migrate ..` and `schema ..`.

use std::path::Path;
use std::sync::Arc;

use linchpin_core::causes;
use linchpin_core::schema::{Chain as Embedded, SchemaStore};
use linchpin_migrate::cli::{self, Context, Invocation, Outcome};
use linchpin_migrate::{Chain, Declarations, Declared, DeclaredOperation, Exit, OwnSql, Refusal};

use super::build::App;
use super::schema::Known;
use super::stores::Stores;
use crate::Package;
use crate::audit::AuditLog;
use crate::entity::EntityDesc;
use crate::http::Claims;
use crate::store::DatabaseUrl;

impl App {
    /// Runs a command and returns the exit status of the process. Only commands that read or change
    /// a database need a configuration, and of it only the database.
    pub(super) async fn migrate(self, args: &[String]) -> i32 {
        let invocation = match cli::parse(args) {
            Ok(invocation) => invocation,
            Err(refusal) => return cli::finish(args, None, Err(refusal)),
        };
        let entities = self.entities();
        let context = Context {
            entities: Some(&entities),
            embedded: Some(&self.migrations),
        };
        let done = match cli::offline(&invocation, &context) {
            Some(done) => done,
            None => self.on_database(&invocation, &entities).await,
        };
        cli::finish(args, Some(&invocation), done)
    }

    /// The entities of the app and its plugins.
    pub(super) fn entities(&self) -> Vec<&'static EntityDesc> {
        entities(&self.packages)
    }

    async fn on_database(
        &self,
        invocation: &Invocation,
        entities: &[&'static EntityDesc],
    ) -> Result<Outcome, Refusal> {
        // Mistakes in the declarations are reported before a connection is opened.
        let chain = self.chain(invocation)?;
        let declared = declared(&self.packages, &self.migrations, &chain, entities)?;
        let store = self.schema_store(invocation)?;
        let quiet = invocation.common.quiet;
        let json = invocation.common.json;
        let mut report = |line: &str| {
            if json && !quiet {
                eprintln!("{}", serde_json::json!({ "progress": line }));
            } else if !quiet {
                eprintln!("{line}");
            }
        };
        cli::online(invocation, &*store, (&chain, &declared), &mut report).await
    }

    /// The chain of recorded migrations: that of the folder if the option `--dir` names one or the
    /// binary contains no migrations, otherwise that of the binary.
    fn chain(&self, invocation: &Invocation) -> Result<Chain, Refusal> {
        let common = &invocation.common;
        if common.dir.is_none() {
            return chain(&self.migrations);
        }
        Chain::load(common.folder())
    }

    /// The schema of the database in `--url` or in the configuration. It is not opened yet.
    fn schema_store(&self, invocation: &Invocation) -> Result<Arc<dyn SchemaStore>, Refusal> {
        let refused = |message: String| Refusal::new("target_refused", Exit::Target, message);
        let stores = Stores::new(&self.config, &self.providers);
        let given = invocation.common.url.as_deref().map(DatabaseUrl::new);
        let url = given.as_ref().unwrap_or(&self.config.database);
        if let Some(flaw) = stores.flaw(url) {
            return Err(refused(format!("the URL of the database {flaw}")));
        }
        let kind = stores
            .kind(url)
            .map_err(|error| refused(error.message().to_owned()))?;
        if let Some(name) = &invocation.common.store
            && name != kind.name
        {
            return Err(Refusal::new(
                "store_unknown",
                Exit::Usage,
                format!(
                    "no store `{name}` is configured; the database is in `{}`",
                    kind.name
                ),
            ));
        }
        let schema = stores.find(url).map(|provider| provider.schema(url));
        match schema {
            Some(Ok(Some(schema))) => Ok(schema),
            Some(Err(error)) => {
                let why: Vec<String> = causes(&error).map(ToString::to_string).collect();
                let why = if why.is_empty() {
                    error.message().to_owned()
                } else {
                    why.join(": ")
                };
                Err(refused(url.redact(&why)))
            }
            _ => Err(Refusal::new(
                "target_unsupported",
                Exit::Target,
                format!("the store `{}` does not support migrations", kind.name),
            )),
        }
    }
}

/// The recorded migrations of an app: those of the binary, or those of the folder `migrations` if the
/// binary contains none.
fn chain(embedded: &Embedded) -> Result<Chain, Refusal> {
    if embedded.chain.is_empty() {
        return Chain::load(Path::new(cli::FOLDER));
    }
    Chain::embedded(embedded)
}

fn entities(packages: &[&'static Package]) -> Vec<&'static EntityDesc> {
    let entries = packages.iter().flat_map(|package| package.entities);
    entries.map(|entry| entry.desc).collect()
}

/// The declared schema, with the former names that the recorded migrations contain.
fn declared(
    packages: &[&'static Package],
    embedded: &Embedded,
    chain: &Chain,
    entities: &[&'static EntityDesc],
) -> Result<Declared, Refusal> {
    let diff = Declarations::Entities(entities).diff(chain)?;
    let first = packages.first();
    Ok(Declared {
        app: first.map_or("app", |package| package.name).to_owned(),
        entities: entities.to_vec(),
        // All system entities, even those that the app does not use now: a later release may use
        // them.
        system: vec![Claims::entity(), AuditLog::entity()],
        transforms: embedded.transforms.to_vec(),
        own_sql: own_sql(packages),
        operations: operations(packages).collect(),
        snapshot: diff.snapshot,
    })
}

/// The SQL texts of custom operations. A migration that renames or drops a column must know whether
/// one of them reads it.
fn own_sql(packages: &[&'static Package]) -> Vec<OwnSql> {
    operations(packages)
        .filter(|operation| !operation.spec.kind.texts().is_empty())
        .map(|operation| OwnSql {
            entity: operation.entity.storage_name,
            operation: operation.spec.name,
            texts: operation.spec.kind.texts(),
        })
        .collect()
}

/// The operations that have routes.
fn operations(packages: &[&'static Package]) -> impl Iterator<Item = DeclaredOperation> {
    let entries = packages.iter().flat_map(|package| package.entities);
    entries.flat_map(|entry| {
        entry.mounted().map(|spec| DeclaredOperation {
            entity: entry.desc,
            spec,
        })
    })
}

/// The recorded migrations and the declared schema, which start-up compares with the database.
pub(super) fn known(packages: &[&'static Package], embedded: &Embedded) -> Result<Known, Refusal> {
    let chain = chain(embedded)?;
    let declared = declared(packages, embedded, &chain, &entities(packages))?;
    Ok(Arc::new((chain, declared)))
}
