//! `cargo xtask bench --webhooks`: deliveries, intake and fairness of webhooks, encryption of push
//! messages, and what a create costs whose event an endpoint gets.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::instructions::{FEW, MORE, counted, valgrind, valgrind_with};
use super::server::{Server, build, in_folder, number, run_to_end};
use super::{shown, write};

/// Rounds of creates per second, in turn; the median counts.
const ROUNDS: usize = 5;
const SECONDS: &str = "2";
/// The most that a create with one matching endpoint costs, beside one with a stored event.
const DEARER: f64 = 1.2;

/// The servers: events are ignored, or one endpoint gets them all.
const IGNORED: &str = "events-server";
const WANTED: &str = "webhooks-server";

pub(super) fn run(into_readme: bool) -> Result<(), String> {
    valgrind()?;
    let bin = build(&["bench-plugins", "bench-driver"], Some("plugins"))?;
    let mut program = Command::new(bin.join("bench-plugins"));
    let (mut table, succeeded) = shown("webhooks", program.arg("webhooks"))?;
    let (rows, dear) = in_folder(|folder| creates(&bin, folder))?;
    print!("{rows}");
    table.push_str(&rows);
    if into_readme {
        write("webhooks", &format!("One run.\n\n{}", table.trim()))?;
    }
    succeeded?;
    if dear {
        Err("a create whose event an endpoint gets exceeds its bound".to_owned())
    } else {
        Ok(())
    }
}

/// The rows of creates, and whether one exceeds its bound.
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
    let few = |server| instructions(bin, folder, server);
    let (counted, beside) = (few(WANTED)?, few(IGNORED)?);
    let dearer = counted as f64 / beside.max(1) as f64;
    let beside_what = "with one matching endpoint, beside one with a stored event";
    let rows = format!(
        "| creates {beside_what} | {wanted:.0}/s | {ignored:.0}/s | {slower:.2} slower | at most {DEARER} |\n\
         | instructions of a create {beside_what} | {counted} | {beside} | {dearer:.2} | at most {DEARER} |\n"
    );
    // Either of them holds the bound.
    Ok((rows, slower.min(dearer) > DEARER))
}

/// A file for a server, and its URL. Only webhooks need the seeded tables.
fn fresh(folder: &Path, server: &str) -> Result<String, String> {
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
    let url = fresh(folder, server)?;
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
        return Err(format!("{server}: requests were refused: {line}"));
    }
    number(&line, "perSecond").ok_or_else(|| "the driver failed".to_owned())
}

/// Instructions of the server for each create, with everything that follows from it.
fn instructions(bin: &Path, folder: &Path, server: &str) -> Result<u64, String> {
    let total = |requests: u64| {
        let url = fresh(folder, server)?;
        let mut command = valgrind_with(folder);
        command.arg(bin.join("bench-plugins")).arg(server);
        counted(folder, command, &url, |port| {
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
