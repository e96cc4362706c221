//! `cargo xtask bench --webhooks`: deliveries, intake and fairness of webhooks, encryption of push
//! messages, and the cost of creates whose event an endpoint receives.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::instructions::{FEW, MORE, count_instructions, valgrind, valgrind_with};
use super::server::{Server, build, in_folder, number, run_to_end};
use super::{run_and_print, write};

/// Alternating rounds of creates; the median rate counts.
const ROUNDS: usize = 5;
const SECONDS: &str = "2";
/// The maximum cost of a create with one matching endpoint, relative to one with a stored event.
const MAX_COST_RATIO: f64 = 1.2;

/// The servers: a consumer ignores all events, or one endpoint receives them.
const IGNORED: &str = "events-server";
const WANTED: &str = "webhooks-server";

pub(super) fn run(into_readme: bool) -> Result<(), String> {
    valgrind()?;
    let bin = build(&["bench-plugins", "bench-driver"], Some("plugins"))?;
    let mut program = Command::new(bin.join("bench-plugins"));
    let (mut table, succeeded) = run_and_print("webhooks", program.arg("webhooks"))?;
    let (rows, exceeds_bound) = in_folder(|folder| creates(&bin, folder))?;
    print!("{rows}");
    table.push_str(&rows);
    if into_readme {
        write("webhooks", &format!("One run.\n\n{}", table.trim()))?;
    }
    succeeded?;
    if exceeds_bound {
        Err("creates with one matching endpoint cost more than their bound, in time and in instructions".to_owned())
    } else {
        Ok(())
    }
}

/// The rows of creates, and whether both exceed the bound.
fn creates(bin: &Path, folder: &Path) -> Result<(String, bool), String> {
    let seed = folder.join("seed.db");
    run_to_end(
        Command::new(bin.join("bench-plugins"))
            .arg("webhooks-seed")
            .arg(&seed),
    )?;
    let (mut ignored, mut wanted) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        ignored.push(per_second(bin, folder, IGNORED, round)?);
        wanted.push(per_second(bin, folder, WANTED, round)?);
    }
    let (ignored, wanted) = (median(ignored), median(wanted));
    let slower = ignored / wanted.max(1.0);
    let count = |server| instructions(bin, folder, server);
    let (counted, baseline) = (count(WANTED)?, count(IGNORED)?);
    let cost_ratio = counted as f64 / baseline.max(1) as f64;
    let what = "with one matching endpoint, compared with creates with a stored event";
    let rows = format!(
        "| creates {what} | {wanted:.0}/s | {ignored:.0}/s | {slower:.2} times as slow | at most {MAX_COST_RATIO} |\n\
         | instructions of creates {what} | {counted} | {baseline} | {cost_ratio:.2} | at most {MAX_COST_RATIO} |\n"
    );
    // It is enough if one of the two ratios is within the bound.
    Ok((rows, slower.min(cost_ratio) > MAX_COST_RATIO))
}

/// Removes the earlier database file of a server, and returns its URL. Only the server with
/// webhooks gets a copy of the seeded file.
fn new_database(folder: &Path, server: &str) -> Result<String, String> {
    let file = folder.join(format!("{server}.db"));
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(folder.join(format!("{server}.db{end}")));
    }
    if server == WANTED {
        fs::copy(folder.join("seed.db"), &file).map_err(|e| e.to_string())?;
    }
    Ok(format!("sqlite:{}", file.display()))
}

fn per_second(bin: &Path, folder: &Path, server: &str, round: usize) -> Result<f64, String> {
    let url = new_database(folder, server)?;
    let mut program = Command::new(bin.join("bench-plugins"));
    program.arg(server);
    let running = Server::start(program, &url)?;
    let (port, salt) = (running.port.to_string(), round.to_string());
    let out = Command::new(bin.join("bench-driver"))
        .args(["load", &port, "create", SECONDS, &salt])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| e.to_string())?;
    let line = String::from_utf8_lossy(&out.stdout).into_owned();
    if number(&line, "failed") != Some(0.0) {
        return Err(format!("{server}: requests failed: {line}"));
    }
    number(&line, "perSecond").ok_or_else(|| "the driver failed".to_owned())
}

/// Instructions of the server per create. With webhooks, they include the intake of its event.
fn instructions(bin: &Path, folder: &Path, server: &str) -> Result<u64, String> {
    let total = |requests: u64| {
        let url = new_database(folder, server)?;
        let mut command = valgrind_with(folder);
        command.arg(bin.join("bench-plugins")).arg(server);
        count_instructions(folder, command, &url, |port| {
            let requests = requests.to_string();
            let driver = ["count", port, "create", &requests];
            run_to_end(Command::new(bin.join("bench-driver")).args(driver))?;
            if server == IGNORED {
                return Ok(());
            }
            let file = folder.join(format!("{server}.db"));
            let mut wait = Command::new(bin.join("bench-plugins"));
            run_to_end(wait.arg("webhooks-wait").arg(file).arg(&requests))
        })
    };
    Ok(total(MORE)?.saturating_sub(total(FEW)?) / (MORE - FEW))
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
