//! The command line of an app: `serve`, `routes`, `graph`, `openapi`, `migrate`, and the commands
//! of plugins.

use std::io::IsTerminal;

use super::build::App;
use super::config::Config;
use super::overrides::RouteOverride;
use super::plugin::{Command, Run};
use super::start::apply;
use super::stores::Stores;
use super::{checks, graph, rekey, report};
use crate::entity::EntityDesc;
use crate::http::Endpoint;
use crate::store::StoreKind;
use crate::suggest::did_you_mean;
use crate::{Code, Error, Result};
use linchpin_core::causes;

/// The commands of every app; the app and its plugins add others.
const COMMANDS: [(&str, &str); 8] = [
    ("serve", "starts the app (the default)"),
    ("routes", "prints every route; --json for machines"),
    (
        "graph",
        "prints the state diagrams of transitions in Mermaid syntax",
    ),
    ("openapi", "prints the OpenAPI document"),
    ("search", "search rebuild <entity>: rebuilds a search index"),
    (
        "migrate",
        "records, plans and applies changes of the schema; --help lists its commands",
    ),
    ("schema", "prints or compares the declared schema"),
    ("help", "prints this"),
];

/// The exit status for a configuration or declaration that cannot run.
const EX_CONFIG: i32 = 78;

impl App {
    /// Runs the command in the arguments; `serve` without any. If the command fails, this function
    /// prints the error and ends the process: `migrate` and `schema` with their own status, all
    /// other commands with status 78.
    ///
    /// # Errors
    /// Never: a failure ends the process.
    pub async fn run(self) -> Result<()> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        self.run_with(&args).await
    }

    /// Like [`App::run`] with the given arguments, without the name of the program.
    ///
    /// # Errors
    /// Like [`App::run`].
    pub async fn run_with(self, args: &[String]) -> Result<()> {
        self.command_line(args).await
    }

    async fn command_line(self, args: &[String]) -> Result<()> {
        // The future of a start is large; callers hold a pointer to it.
        let done = Box::pin(self.run_command(args)).await;
        if let Err(error) = &done {
            // Printed and not logged, because a log format such as JSON would hide the line breaks.
            eprintln!("linchpin: {}", error.message());
            for problem in error.details() {
                eprintln!("  {}: {}", problem.path, problem.message);
            }
            // The text of a start-up error is complete.
            for cause in causes(error).filter(|_| error.startup().is_none()) {
                eprintln!("  because: {cause}");
            }
            std::process::exit(EX_CONFIG);
        }
        Ok(())
    }

    async fn run_command(mut self, args: &[String]) -> Result<()> {
        let word = args.first().map_or("serve", String::as_str);
        if ["migrate", "schema"].contains(&word) {
            // The exit status is part of the interface: scripts use it to distinguish a refusal
            // from a busy lock.
            match self.migrate(args).await {
                0 => return Ok(()),
                status => std::process::exit(status),
            }
        }
        let rest = args.get(1..).unwrap_or_default();
        let mut commands = self.commands()?;
        if let Some(at) = commands.iter().position(|c| c.name == word) {
            return match commands.swap_remove(at).run {
                Run::Alone(run) => {
                    let stores = Stores::new(&self.config, &self.providers);
                    print_line(run(rest, &self.config.clone().checked(&stores)?.1)?)
                }
                Run::Over(run) => {
                    if self.store.is_none() && self.configured().is_some_and(|kind| !kind.durable) {
                        // Other processes, such as the server, do not see a database in the memory
                        // of this process.
                        eprintln!(
                            "linchpin: the database is in the memory of this command: the changes of `{word}` are lost when it ends"
                        );
                    }
                    let mut built = self.build().await?;
                    let relay = built.events.start_in_command(&built.store);
                    let done = run(built.adapters.clone(), rest.to_vec()).await;
                    if let Some(relay) = relay {
                        relay.stop().await;
                    }
                    built.undo().await;
                    print_line(done?)
                }
            };
        }
        match word {
            "serve" => self.serve().await,
            "routes" => {
                let report = self.report(args.get(1..).unwrap_or_default())?;
                print_line(report)?;
                // The report shows the mistakes in the routes; the command fails nevertheless.
                self.checked_routes().map(drop)
            }
            "graph" => print_line(graph::of(&self.packages)),
            "openapi" => {
                let (info, security) = (self.info(), self.security());
                print_line(crate::openapi::document(
                    &info,
                    &self.checked_routes()?,
                    &security,
                ))
            }
            "search" => print_line(self.search(args.get(1..).unwrap_or_default()).await?),
            "help" | "--help" | "-h" => print_line(help(&commands)),
            other => {
                let hint = did_you_mean(
                    other,
                    COMMANDS
                        .into_iter()
                        .map(|(word, _)| word)
                        .chain(commands.iter().map(|c| c.name)),
                );
                Err(Error::new(
                    Code::Internal,
                    format!("unknown command `{other}`{hint}\n\n{}", help(&commands)),
                ))
            }
        }
    }

    /// The commands of the app and of its plugins.
    ///
    /// # Errors
    /// If two commands have the same name.
    fn commands(&mut self) -> Result<Vec<Command>> {
        let mut commands = std::mem::take(&mut self.own_commands);
        commands.extend(self.plugins.iter().flat_map(|plugin| plugin.commands()));
        if !commands.iter().any(|c| c.name == rekey::NAME) {
            commands.push(rekey::command());
        }
        let mut names: Vec<&str> = COMMANDS
            .into_iter()
            .map(|(word, _)| word)
            .chain(commands.iter().map(|c| c.name))
            .collect();
        names.sort_unstable();
        match names.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(Error::new(
                Code::Internal,
                format!("two commands are named `{}`; give one another name", two[0]),
            )),
            None => Ok(commands),
        }
    }

    /// `search rebuild <entity>`: starts everything but the server, and rebuilds indexes.
    pub(crate) async fn search(self, args: &[String]) -> Result<String> {
        let refused = |text: String| Err(Error::new(Code::Internal, text));
        let searched: Vec<&'static EntityDesc> = self
            .packages
            .iter()
            .flat_map(|p| p.entities)
            .map(|e| e.desc)
            .filter(|desc| desc.search.is_some())
            .collect();
        let known = || searched.iter().map(|desc| desc.name);
        let [word, names @ ..] = args else {
            return refused("`search` needs a word: search rebuild <entity>".to_owned());
        };
        if word != "rebuild" || names.is_empty() {
            let list = known().collect::<Vec<_>>().join(", ");
            return refused(format!(
                "`search rebuild <entity>` rebuilds a search index; entities with one: {list}"
            ));
        }
        let mut wanted = Vec::new();
        for name in names {
            match searched
                .iter()
                .find(|desc| desc.name == name || desc.storage_name == name)
            {
                Some(desc) => wanted.push(*desc),
                None => {
                    return refused(format!(
                        "no entity `{name}` has a search index{}",
                        did_you_mean(name, known())
                    ));
                }
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

    /// All routes as a table or as JSON. It needs no store and no secret, and no plugin runs.
    fn report(&self, args: &[String]) -> Result<String> {
        let mut endpoints = checks::planned(&self.packages)?;
        endpoints.extend(self.plugin_routes());
        apply(&self.all_overrides(), &mut endpoints);
        crate::http::guard(&checks::patterns(&self.guards)?, &mut endpoints);
        let alone = self.store.as_ref().map_or_else(
            || self.configured().is_none_or(|kind| kind.alone),
            |store| store.alone(),
        );
        let lines = report::lines(&self.packages, &endpoints, alone);
        match args {
            [] => Ok(report::table(&lines)),
            [flag] if flag == "--json" => Ok(report::json(&lines)),
            [other, ..] => Err(Error::new(
                Code::Internal,
                format!("`routes` takes `--json` and nothing else, not `{other}`"),
            )),
        }
    }

    /// All endpoints; an error if there are mistakes in them.
    fn checked_routes(self) -> Result<Vec<Endpoint>> {
        let (of_plugins, guards) = (self.plugin_routes(), checks::patterns(&self.guards)?);
        let overrides = self.all_overrides();
        checks::in_setup_order(self.plugins, &self.packages)?;
        checks::routes(&self.packages, &overrides)?;
        let mut endpoints = checks::planned(&self.packages)?;
        endpoints.extend(of_plugins);
        crate::http::guard(&guards, &mut endpoints);
        Ok(endpoints)
    }

    /// The facts of the store in the configuration, if the app has that store.
    fn configured(&self) -> Option<&'static StoreKind> {
        let stores = Stores::new(&self.config, &self.providers);
        stores.kind(&self.config.database).ok()
    }

    /// The overrides of the app and of its plugins.
    fn all_overrides(&self) -> Vec<RouteOverride> {
        let of_plugins = self.plugins.iter().flat_map(|plugin| plugin.overrides());
        self.overrides.iter().cloned().chain(of_plugins).collect()
    }

    fn plugin_routes(&self) -> Vec<Endpoint> {
        crate::http::plugin_endpoints(
            self.plugins
                .iter()
                .flat_map(|plugin| plugin.routes())
                .collect(),
        )
    }
}

fn help(commands: &[Command]) -> String {
    let lines: Vec<_> = COMMANDS
        .into_iter()
        .chain(commands.iter().map(|c| (c.name, c.about)))
        .collect();
    let width = lines
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or_default();
    lines
        .iter()
        .map(|(name, about)| format!("  {name:<width$}  {about}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Installs the log, unless the program has one already.
pub(super) fn log(config: &Config) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_new(&config.log).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // An error means that the program has already installed a subscriber; that one is used.
    let _ = if config.log_json {
        builder.json().try_init()
    } else {
        builder
            .with_ansi(std::io::stderr().is_terminal())
            .try_init()
    };
}

/// Prints a line. The reader may close the pipe early: `openapi | head`.
fn print_line(text: impl std::fmt::Display) -> Result<()> {
    use std::io::Write;
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::internal(error)),
        _ => Ok(()),
    }
}
