//! The app as its own command line: `serve`, `routes`, `openapi`, and what plugins add.

use std::fmt::Write;
use std::io::IsTerminal;

use super::build::App;
use super::checks;
use super::config::Config;
use super::suggest::did_you_mean;
use crate::entity::EntityDesc;
use crate::http::{Action, AuthDesc, Endpoint};
use crate::{Code, Error, Result};

/// Exit status of an app whose configuration or declaration cannot run.
const EX_CONFIG: i32 = 78;

impl App {
    /// Reads the arguments and does what they say; `serve` without any. Ends the process with status 78 when start-up fails.
    ///
    /// # Errors
    /// When serving fails after start-up.
    pub async fn run(self) -> Result<()> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let done = self.command(&args).await;
        if let Err(error) = &done {
            // A person reads this; the log's form would hide the lines.
            eprintln!("linchpin: {}", error.message());
            for problem in error.details() {
                eprintln!("  {}: {}", problem.path, problem.message);
            }
            // The text of a start-up error says it all.
            let mut cause = std::error::Error::source(error).filter(|_| error.startup().is_none());
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            std::process::exit(EX_CONFIG);
        }
        Ok(())
    }

    async fn command(self, args: &[String]) -> Result<()> {
        let word = args.first().map_or("serve", String::as_str);
        if let Some(command) = self.commands().into_iter().find(|c| c.name == word) {
            let (_, secrets) = self.config.clone().checked()?;
            println!("{}", (command.run)(args.get(1..).unwrap_or_default(), &secrets)?);
            return Ok(());
        }
        match word {
            "serve" => self.serve().await,
            "routes" => {
                let json = args.iter().any(|a| a == "--json");
                println!("{}", if json { json_table(&self.routes()?) } else { table(&self.routes()?) });
                Ok(())
            }
            "openapi" => {
                let info = self.info();
                let endpoints = self.routes()?;
                println!("{}", crate::openapi::document(&info, &endpoints));
                Ok(())
            }
            "search" => {
                println!("{}", self.search(args.get(1..).unwrap_or_default()).await?);
                Ok(())
            }
            "help" | "--help" | "-h" => {
                println!("{}", self.help());
                Ok(())
            }
            other => {
                let commands = self.commands();
                let hint = did_you_mean(
                    other,
                    ["serve", "routes", "openapi", "search", "help"].into_iter().chain(commands.iter().map(|c| c.name)),
                );
                Err(Error::new(Code::Internal, format!("unknown command `{other}`{hint}\n\n{}", self.help())))
            }
        }
    }

    fn help(&self) -> String {
        let mut lines = vec![
            ("serve", "starts the app (the default)"),
            ("routes", "prints every route; --json for machines"),
            ("openapi", "prints the OpenAPI document"),
            ("search", "search rebuild <entity>: makes a search index anew"),
        ];
        let commands = self.commands();
        lines.extend(commands.iter().map(|c| (c.name, c.about)));
        lines.iter().map(|(name, about)| format!("  {name:<10} {about}")).collect::<Vec<_>>().join("\n")
    }

    /// `search rebuild <entity>`: starts everything but the server, and makes indexes anew.
    pub(crate) async fn search(self, args: &[String]) -> Result<String> {
        let refused = |text: String| Err(Error::new(Code::Internal, text));
        let searched: Vec<&'static EntityDesc> =
            self.packages.iter().flat_map(|p| p.entities).map(|e| e.desc).filter(|desc| desc.search.is_some()).collect();
        let known = || searched.iter().map(|desc| desc.name);
        let [word, names @ ..] = args else { return refused("`search` needs a word: search rebuild <entity>".to_owned()) };
        if word != "rebuild" || names.is_empty() {
            let list = known().collect::<Vec<_>>().join(", ");
            return refused(format!("`search rebuild <entity>` makes a search index anew; entities with one: {list}"));
        }
        let mut wanted = Vec::new();
        for name in names {
            match searched.iter().find(|desc| desc.name == name || desc.storage_name == name) {
                Some(desc) => wanted.push(*desc),
                None => return refused(format!("no entity `{name}` has a search index{}", did_you_mean(name, known()))),
            }
        }
        log(&self.config);
        let built = self.build().await?;
        let mut lines = Vec::new();
        let mut failed = None;
        for desc in wanted {
            match built.adapters.rebuild_index(desc.storage_name).await {
                Ok(records) => lines.push(format!("{}: {records} records indexed", desc.name)),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        built.undo().await;
        failed.map_or_else(|| Ok(lines.join("\n")), Err)
    }

    /// Every endpoint. Neither a store nor a secret is needed, and no plugin runs.
    fn routes(self) -> Result<Vec<Endpoint>> {
        checks::ordered(self.plugins, &self.packages)?;
        checks::routes(&self.packages, &self.overrides)?;
        checks::planned(&self.packages)
    }
}

struct Line {
    method: &'static str,
    path: String,
    entity: &'static str,
    name: String,
    kind: &'static str,
    auth: &'static str,
    roles: String,
    at: String,
}

fn line(endpoint: &Endpoint) -> Line {
    Line {
        method: endpoint.method.as_str(),
        path: endpoint.path.clone(),
        entity: endpoint.table.as_ref().map_or("", |t| t.desc.name),
        name: endpoint.name.clone(),
        kind: match endpoint.action {
            Action::Operation(spec, _) => spec.kind.name(),
            Action::Extra(_) => "route",
            _ => "crud",
        },
        auth: match endpoint.policy.auth {
            AuthDesc::None => "none",
            AuthDesc::Named(name) => name,
        },
        roles: endpoint.policy.roles.join(","),
        at: format!("{}:{}", endpoint.at.file, endpoint.at.line),
    }
}

fn table(endpoints: &[Endpoint]) -> String {
    let head = ["METHOD", "PATH", "ENTITY", "ROUTE", "KIND", "AUTH", "ROLES", "SOURCE"].map(str::to_owned);
    let rows = endpoints
        .iter()
        .map(line)
        .map(|l| [l.method.to_owned(), l.path, l.entity.to_owned(), l.name, l.kind.to_owned(), l.auth.to_owned(), l.roles, l.at]);
    let rows: Vec<[String; 8]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|r| r[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a String cannot fail.
            let _ = write!(out, "{cell:<width$}  ");
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

fn json_table(endpoints: &[Endpoint]) -> String {
    let rows = endpoints.iter().map(line).map(|l| {
        serde_json::json!({
            "method": l.method, "path": l.path, "entity": l.entity, "route": l.name, "kind": l.kind, "auth": l.auth,
            "roles": l.roles.split(',').filter(|r| !r.is_empty()).collect::<Vec<_>>(), "source": l.at,
        })
    });
    serde_json::Value::Array(rows.collect()).to_string()
}

/// Installs the log, unless the program has one already.
pub(super) fn log(config: &Config) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_new(&config.log).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // An error means that a subscriber is installed already, which then is the program's choice.
    let _ = if config.log_json { builder.json().try_init() } else { builder.with_ansi(std::io::stderr().is_terminal()).try_init() };
}
