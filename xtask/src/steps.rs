//! The steps of a task: each is a command with a measured duration; a table at the end shows the
//! durations.

use std::borrow::BorrowMut;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::processor;

/// The maximum duration of `cargo xtask test` in seconds, on two cores, if the dependencies are
/// already compiled.
const WARM: u64 = 20 * 60;
/// The maximum duration in seconds on a new machine, including compiling the dependencies and
/// installing programs for tests.
const BARE: u64 = 40 * 60;

/// The maximum number of concurrent steps.
const CONCURRENT: usize = 2;

/// The finished steps.
static STEPS: Mutex<Vec<Step>> = Mutex::new(Vec::new());

/// A finished step.
struct Step {
    name: String,
    /// Its duration in seconds.
    took: u64,
    /// The seconds of processor time that its processes used. More than the duration if they used
    /// both cores; less if they waited, for a disk or for other steps.
    used: u64,
}

/// A `cargo` command with these arguments.
pub(crate) fn cargo(args: &[&str]) -> Command {
    // Cargo passes its own path to child processes, so that the same toolchain is used everywhere.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

/// The target directory of cargo.
pub(crate) fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Runs a command as a step.
pub(crate) fn step(name: &str, mut command: impl BorrowMut<Command>) -> Result<(), String> {
    timed(name, || status(name, command.borrow_mut()))
}

/// Runs a command as a step that runs concurrently with others: its output is printed as a whole
/// when it ends.
pub(crate) fn concurrent_step(name: &str, command: impl BorrowMut<Command>) -> Result<(), String> {
    concurrent_step_with_check(name, command, |_| Ok(()))
}

/// Like [`concurrent_step`], but `check` also examines the output, and can make the step fail.
pub(crate) fn concurrent_step_with_check(
    name: &str,
    mut command: impl BorrowMut<Command>,
    check: impl FnOnce(&str) -> Result<(), String>,
) -> Result<(), String> {
    timed(name, || {
        let command = command.borrow_mut();
        let mut output = unnamed_file().map_err(|e| format!("{name}: {e}"))?;
        let copy = |file: &File| file.try_clone().map_err(|e| format!("{name}: {e}"));
        command.stdout(copy(&output)?).stderr(copy(&output)?);
        let done = status(name, command);
        let mut text = Vec::new();
        let read = output
            .rewind()
            .and_then(|()| output.read_to_end(&mut text))
            .map_err(|e| format!("the output of {name} cannot be read: {e}"));
        let text = String::from_utf8_lossy(&text);
        println!("{text}");
        let checked = check(&text).map_err(|what| format!("{name}: {what}"));
        read.and(done).and(checked)
    })
}

/// Opens a temporary file without a name, which is deleted when it is closed. A pipe is not used:
/// if a test left a server running, the pipe would stay open as long as that server runs.
fn unnamed_file() -> std::io::Result<File> {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("xtask-{}-{number}.log", std::process::id()));
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

fn status(name: &str, command: &mut Command) -> Result<(), String> {
    let ended = command
        .spawn()
        .and_then(|mut child| processor::wait(&mut child));
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} failed ({status})")),
        Err(error) => Err(format!("{name} could not be started: {error}")),
    }
}

/// Lowers the priority of a command, so that it uses only processor time that other steps leave.
pub(crate) fn with_low_priority(command: &Command) -> Command {
    let mut lowered = Command::new("nice");
    lowered
        .arg("-n10")
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => lowered.env(name, value),
            None => lowered.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        lowered.current_dir(folder);
    }
    lowered
}

/// A step that can run concurrently with others.
pub(crate) type Job<'a> = Box<dyn FnOnce() -> Result<(), String> + Send + 'a>;

/// Runs jobs in the given order, at most [`CONCURRENT`] at a time. Tests wait for servers and disks
/// for a third of their time; a second job uses that time.
pub(crate) fn run_concurrently(jobs: Vec<Job<'_>>) -> Vec<Result<(), String>> {
    let jobs = Mutex::new(jobs.into_iter());
    let next = || jobs.lock().ok().and_then(|mut jobs| jobs.next());
    let work = || {
        let mut done = Vec::new();
        while let Some(job) = next() {
            done.push(job());
        }
        done
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CONCURRENT).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| {
                let panicked = |_| vec![Err("a step of the checks panicked".to_owned())];
                worker.join().unwrap_or_else(panicked)
            })
            .collect()
    })
}

/// Runs a function as a step.
pub(crate) fn timed<T>(name: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    println!("xtask: {name}");
    let started = Instant::now();
    let done = work();
    let (took, used) = (started.elapsed().as_secs(), processor::take());
    if let Ok(mut steps) = STEPS.lock() {
        let name = name.to_owned();
        steps.push(Step { name, took, used });
    }
    if done.is_ok() {
        println!("xtask: {name} passed in {took} s");
    }
    done
}

/// Prints the durations, the longest first, with the processor time, and the budgets next to the
/// total. Steps with the same name share a row.
pub(crate) fn print_table(took: u64) {
    if let Ok(steps) = STEPS.lock() {
        print!("{}", table(&steps, took));
    }
}

fn table(steps: &[Step], took: u64) -> String {
    let mut rows: Vec<(&str, u64, u64)> = Vec::new();
    for step in steps {
        match rows.iter_mut().find(|(row, ..)| *row == step.name) {
            Some((_, seconds, used)) => {
                *seconds += step.took;
                *used += step.used;
            }
            None => rows.push((&step.name, step.took, step.used)),
        }
    }
    rows.sort_by_key(|(_, seconds, _)| std::cmp::Reverse(*seconds));
    let mut out = format!(
        "{:<44} {:>7} {:>6} {:>9}\n",
        "step", "seconds", "share", "processor"
    );
    for (name, seconds, used) in rows {
        out.push_str(&format!(
            "{name:<44} {seconds:>7} {:>5}% {used:>9}\n",
            seconds * 100 / took.max(1)
        ));
    }
    let used: u64 = steps.iter().map(|step| step.used).sum();
    let over = |most: u64| if took > most { " (over)" } else { "" };
    out.push_str(&format!(
        "{:<44} {took:>7}        {used:>9}  at most {WARM} s with compiled dependencies{}, {BARE} s on a bare machine{}, with 2 cores\n",
        "total",
        over(WARM),
        over(BARE)
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::{BARE, Job, Step, WARM, run_concurrently, table, with_low_priority};

    #[test]
    fn a_failed_job_does_not_stop_the_others() {
        let ran = std::sync::Mutex::new(Vec::new());
        let job = |name: &'static str, done: Result<(), String>| -> Job<'_> {
            let ran = &ran;
            Box::new(move || {
                ran.lock().unwrap().push(name);
                done
            })
        };
        let failed = || Err("failed".to_owned());
        let jobs = vec![job("a", failed()), job("b", Ok(())), job("c", failed())];
        let errors = run_concurrently(jobs)
            .iter()
            .filter(|done| done.is_err())
            .count();
        ran.lock().unwrap().sort_unstable();
        assert_eq!(
            (errors, &ran.lock().unwrap()[..]),
            (2, &["a", "b", "c"][..])
        );
    }

    #[test]
    fn a_job_that_panics_is_a_failure() {
        let jobs: Vec<Job<'_>> = vec![Box::new(|| panic!("on purpose")), Box::new(|| Ok(()))];
        assert!(run_concurrently(jobs).iter().any(Result::is_err));
    }

    #[test]
    fn a_command_with_low_priority_is_otherwise_the_same() {
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", "nice; pwd; echo $ADDED${HOME-removed}"])
            .env("ADDED", "added ")
            .env_remove("HOME")
            .current_dir("/");
        let now: i32 = niceness("nice");
        let printed = with_low_priority(&command).output().unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        let niceness = (now + 10).min(19);
        assert_eq!(printed, format!("{niceness}\n/\nadded removed\n"));
    }

    /// The niceness that a program prints.
    fn niceness(program: &str) -> i32 {
        let printed = std::process::Command::new(program).output().unwrap().stdout;
        String::from_utf8(printed).unwrap().trim().parse().unwrap()
    }

    #[test]
    fn the_table_adds_steps_of_one_name_and_shows_the_longest_first() {
        let steps = [("a", 3, 1), ("b", 5, 9), ("a", 4, 2)].map(|(name, took, used)| Step {
            name: name.to_owned(),
            took,
            used,
        });
        let table = table(&steps, 12);
        let rows: Vec<Vec<&str>> = table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().take(4).collect())
            .collect();
        assert_eq!(rows[..2], [["a", "7", "58%", "3"], ["b", "5", "41%", "9"]]);
        assert!(
            table.contains("total") && table.contains("1200") && table.contains("2400"),
            "{table}"
        );
    }

    #[test]
    fn a_total_over_a_budget_is_marked() {
        let marks = |took: u64| table(&[], took).matches("(over)").count();
        assert_eq!([WARM, WARM + 1, BARE + 1].map(marks), [0, 1, 2]);
    }
}
