//! Requests per second of several servers in alternating rounds, measured with one tool.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::database::Database;
use super::server::{Server, build, in_folder, number};
use super::{SERVERS, write};
use crate::postgres::Cluster;

const POSTS: [(&str, &str); 6] = [
    ("get", "GET by id"),
    ("list", "list 20, page 1"),
    ("deep", "list 20, deep"),
    ("create", "create"),
    ("patch", "patch"),
    ("publish", "transition"),
];

const KINDS: [(&str, &str); 17] = [
    ("lookup", "lookup of one"),
    ("lookup20", "lookup of 20"),
    ("exists", "exists"),
    ("increment", "increment"),
    ("fieldUpdate", "field_update"),
    ("arrayPush", "array_push"),
    ("arrayPull", "array_pull"),
    ("arraySet", "array_set"),
    ("upsert", "upsert"),
    ("collection", "collection, update"),
    ("redeem", "consume"),
    ("batch", "batch of 20"),
    ("search", "search of 20,000"),
    ("aggregate", "aggregate of 20"),
    ("computed", "computed_aggregate of 20"),
    ("derive", "derive from two sources"),
    ("custom", "custom"),
];

/// The result of one load on one server.
#[derive(Clone, Copy, Default)]
struct Measured {
    per_second: f64,
    p50: f64,
    p99: f64,
    cpu_micros: f64,
    rss_mb: f64,
}

/// A table: its loads and its servers.
struct Plan {
    /// Its markers in the README.
    name: &'static str,
    loads: Vec<(&'static str, &'static str)>,
    servers: Vec<&'static str>,
    durability: &'static str,
    rounds: usize,
    seconds: f64,
}

/// Builds and seeds the servers, measures them in alternating rounds, and prints the table.
/// Options: `--kinds`, `--postgres`, `--only get,list`, `--rounds N`, `--seconds S`, `--write`.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let option = |name: &str, default: f64| {
        let at = args.iter().position(|a| a == name);
        at.and_then(|i| args.get(i + 1)).map_or(Ok(default), |v| {
            v.parse().map_err(|_| format!("{name} needs a number"))
        })
    };
    let has_option = |name: &str| args.iter().any(|a| a == name);
    let postgres = has_option("--postgres");
    let (name, mut loads, servers) = match (postgres, has_option("--kinds")) {
        (true, _) => (
            "postgres",
            [POSTS.as_slice(), &KINDS].concat(),
            vec!["plain-postgres", "generated"],
        ),
        (false, true) => ("kinds", KINDS.to_vec(), vec!["plain", "generated"]),
        (false, false) => ("table", POSTS.to_vec(), SERVERS.to_vec()),
    };
    if let Some(at) = args.iter().position(|a| a == "--only") {
        let only: Vec<&str> = args
            .get(at + 1)
            .map_or("", String::as_str)
            .split(',')
            .collect();
        let all = loads
            .iter()
            .map(|(load, _)| *load)
            .collect::<Vec<_>>()
            .join(", ");
        loads.retain(|(load, _)| only.contains(load));
        if loads.len() != only.len() || has_option("--write") {
            return Err(format!(
                "--only needs one or more of {all}, separated by commas, and cannot be combined with --write"
            ));
        }
    }
    let durability = if postgres {
        "Postgres with default settings"
    } else {
        "`synchronous=FULL`"
    };
    let (rounds, seconds) = (
        (option("--rounds", 5.0)? as usize).max(1),
        option("--seconds", 3.0)?,
    );
    let plan = Plan {
        name,
        loads,
        servers,
        durability,
        rounds,
        seconds,
    };
    let bin = build(&[], postgres.then_some("postgres"))?;
    let table = in_folder(|folder| {
        let database = if postgres {
            Database::Postgres(Cluster::start(folder)?)
        } else {
            Database::Sqlite(folder.to_owned())
        };
        let (rest, seen) = plan.measure(&bin, &database)?;
        Ok(plan.table(&rest, &seen))
    })?;
    println!("{table}");
    if has_option("--write") {
        write(plan.name, &table)
    } else {
        Ok(())
    }
}

/// The results of all rounds, per load and server.
type Table = Vec<Vec<Vec<Measured>>>;

impl Plan {
    /// The memory at rest of each server, and the measured results.
    fn measure(&self, bin: &Path, database: &Database) -> Result<(Vec<f64>, Table), String> {
        database.seed(bin)?;
        let mut rest = vec![0.0; self.servers.len()];
        let mut seen: Table = self
            .loads
            .iter()
            .map(|_| self.servers.iter().map(|_| Vec::new()).collect())
            .collect();
        for round in 0..self.rounds {
            for (at, (load, _)) in self.loads.iter().enumerate() {
                // In alternating rounds, so that other activity of the machine affects all servers
                // equally.
                for (s, server) in self.servers.iter().enumerate() {
                    let running = Server::start(
                        Command::new(bin.join(format!("bench-{server}"))),
                        &database.new_copy(server)?,
                    )?;
                    rest[s] = running.rss_mb();
                    let one = self
                        .load(bin, &running, load, round * 100 + at)
                        .map_err(|e| format!("{server}, {load}: {e}"))?;
                    println!(
                        "round {} {load:<12} {server:<15} {:>9.0}/s",
                        round + 1,
                        one.per_second
                    );
                    seen[at][s].push(one);
                }
            }
        }
        Ok((rest, seen))
    }

    fn load(
        &self,
        bin: &Path,
        running: &Server,
        load: &str,
        salt: usize,
    ) -> Result<Measured, String> {
        let cpu = running.cpu_seconds();
        let out = Command::new(bin.join("bench-driver"))
            .args([
                "load",
                &running.port.to_string(),
                load,
                &self.seconds.to_string(),
                &salt.to_string(),
            ])
            .stderr(Stdio::inherit())
            .output()
            .map_err(|e| e.to_string())?;
        let line = String::from_utf8_lossy(&out.stdout).into_owned();
        let requests = number(&line, "requests").ok_or("the driver failed")?;
        if number(&line, "failed").unwrap_or(0.0) > 0.0 {
            return Err(format!("requests failed: {line}"));
        }
        let value = |name: &str| number(&line, name).unwrap_or(0.0);
        Ok(Measured {
            per_second: value("perSecond"),
            p50: value("p50"),
            p99: value("p99"),
            cpu_micros: (running.cpu_seconds() - cpu) * 1e6 / requests.max(1.0),
            rss_mb: running.rss_mb(),
        })
    }

    /// Renders the table. The generated server is the last of the servers; the others are for
    /// comparison.
    fn table(&self, rest: &[f64], seen: &Table) -> String {
        let Self {
            rounds,
            seconds,
            durability,
            ..
        } = self;
        let names: Vec<&str> = self
            .servers
            .iter()
            .map(|name| name.trim_end_matches("-postgres"))
            .collect();
        let others = &names[..names.len() - 1];
        let mut out = format!(
            "Medians of {rounds} rounds of {seconds} s, 32 connections, {durability}, a JWT on every request.\n\n| |"
        );
        let mut columns: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        columns.extend(others.iter().map(|name| format!("vs {name}")));
        columns.extend(names.iter().map(|name| format!("p50 / p99 ms ({name})")));
        columns.push(format!("CPU µs/request ({})", names.join(", ")));
        columns.push("MB under load".to_owned());
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            " {} |\n|{}",
            columns.join(" | "),
            "---|".repeat(columns.len() + 1)
        );
        for ((_, name), servers) in self.loads.iter().zip(seen) {
            let per_second: Vec<f64> = servers
                .iter()
                .map(|s| median(s, |x| x.per_second))
                .collect();
            let ours = per_second.last().copied().unwrap_or(0.0);
            let mut cells: Vec<String> = per_second.iter().map(|n| format!("{n:.0}/s")).collect();
            cells.extend(
                per_second
                    .iter()
                    .take(others.len())
                    .map(|n| format!("{:.2}x", ours / n.max(1.0))),
            );
            cells.extend(servers.iter().map(|s| {
                format!(
                    "{:.2} / {:.2}",
                    median(s, |x| x.p50) / 1e3,
                    median(s, |x| x.p99) / 1e3
                )
            }));
            let all = |of: fn(&Measured) -> f64| {
                servers
                    .iter()
                    .map(|s| format!("{:.0}", median(s, of)))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            cells.push(all(|x| x.cpu_micros));
            cells.push(all(|x| x.rss_mb));
            let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
        }
        let rest: Vec<String> = names
            .iter()
            .zip(rest)
            .map(|(name, mb)| format!("{name} {mb:.0} MB"))
            .collect();
        let _ = write!(out, "\nMemory at rest: {}.", rest.join(", "));
        out
    }
}

fn median(seen: &[Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    let mut values: Vec<f64> = seen.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
