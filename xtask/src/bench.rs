//! `cargo xtask bench`: the generated server beside two hand-written ones, in one run, with one tool.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SERVERS: [&str; 3] = ["plain", "limit", "generated"];
const LOADS: [(&str, &str); 6] = [
    ("get", "GET by id"),
    ("list", "list 20, page 1"),
    ("deep", "list 20, deep"),
    ("create", "create"),
    ("patch", "patch"),
    ("publish", "transition"),
];

/// What one load of one server showed.
#[derive(Clone, Copy, Default)]
struct Seen {
    per_second: f64,
    p50: f64,
    p99: f64,
    cpu_micros: f64,
    rss_mb: f64,
}

/// Builds, seeds, measures in turns, prints the table; `--rounds N`, `--seconds S`, `--write`.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let option = |name: &str, default: f64| {
        let at = args.iter().position(|a| a == name);
        at.and_then(|i| args.get(i + 1)).map_or(Ok(default), |v| v.parse().map_err(|_| format!("{name} needs a number")))
    };
    let (rounds, seconds) = (option("--rounds", 5.0)? as usize, option("--seconds", 3.0)?);
    let bin = build()?;
    let folder = std::env::temp_dir().join(format!("linchpin-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let done = measure(&bin, &folder, rounds.max(1), seconds);
    // Whatever happened, the copies of the seeded file go.
    let _ = fs::remove_dir_all(&folder);
    let (rest, seen) = done?;
    let table = table(&rest, &seen, rounds, seconds);
    println!("{table}");
    if args.iter().any(|a| a == "--write") { write(&table) } else { Ok(()) }
}

fn build() -> Result<PathBuf, String> {
    println!("xtask: building the servers in release");
    super::step("release build", super::cargo(&["build", "--release", "--package", "linchpin-benches"]))?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release"))
}

type Table = Vec<[Vec<Seen>; 3]>;

fn measure(bin: &Path, folder: &Path, rounds: usize, seconds: f64) -> Result<([f64; 3], Table), String> {
    let seeded = folder.join("seed.db");
    run_to_end(Command::new(bin.join("bench-driver")).arg("seed").arg(&seeded))?;
    let mut rest = [0.0; 3];
    let mut seen: Table = LOADS.iter().map(|_| [Vec::new(), Vec::new(), Vec::new()]).collect();
    for round in 0..rounds {
        for (at, (load, _)) in LOADS.iter().enumerate() {
            // Turn by turn, so that whatever else the machine does meets all three alike.
            for (s, server) in SERVERS.iter().enumerate() {
                let file = folder.join(format!("{server}.db"));
                for end in ["", "-wal", "-shm"] {
                    let _ = fs::remove_file(folder.join(format!("{server}.db{end}")));
                }
                fs::copy(&seeded, &file).map_err(|e| e.to_string())?;
                let running = Server::start(&bin.join(format!("bench-{server}")), &file)?;
                rest[s] = running.rss_mb();
                let cpu = running.cpu_seconds();
                let salt = (round * 100 + at).to_string();
                let out = Command::new(bin.join("bench-driver"))
                    .args(["load", &running.port.to_string()])
                    .arg(&file)
                    .args([*load, &seconds.to_string(), &salt])
                    .stderr(Stdio::inherit())
                    .output()
                    .map_err(|e| e.to_string())?;
                let line = String::from_utf8_lossy(&out.stdout).into_owned();
                let requests = number(&line, "requests").ok_or_else(|| format!("the driver failed on {server} {load}"))?;
                if number(&line, "failed").unwrap_or(0.0) > 0.0 {
                    return Err(format!("{server} refused requests of {load}: {line}"));
                }
                let value = |name: &str| number(&line, name).unwrap_or(0.0);
                seen[at][s].push(Seen {
                    per_second: value("perSecond"),
                    p50: value("p50"),
                    p99: value("p99"),
                    cpu_micros: (running.cpu_seconds() - cpu) * 1e6 / requests.max(1.0),
                    rss_mb: running.rss_mb(),
                });
                println!("round {} {load:<8} {server:<10} {:>9.0}/s", round + 1, value("perSecond"));
            }
        }
    }
    Ok((rest, seen))
}

fn run_to_end(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("{command:?}: {other:?}")),
    }
}

/// A number of a flat JSON object.
fn number(json: &str, name: &str) -> Option<f64> {
    let (_, rest) = json.split_once(&format!("\"{name}\":"))?;
    rest.split([',', '}']).next()?.trim().parse().ok()
}

/// A server under test; killed when dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(program: &Path, file: &Path) -> Result<Self, String> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).map_err(|e| e.to_string())?.port();
        let child = Command::new(program)
            .arg(port.to_string())
            .arg(file)
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        let server = Self { child, port };
        let until = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > until {
                return Err(format!("{} does not listen", program.display()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn proc(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap_or_default()
    }

    fn rss_mb(&self) -> f64 {
        let status = self.proc("status");
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
    }

    fn cpu_seconds(&self) -> f64 {
        let stat = self.proc("stat");
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |i: usize| fields.get(i).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
        // utime and stime, in hundredths of a second on every Linux.
        (ticks(11) + ticks(12)) / 100.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn median(seen: &[Seen], of: impl Fn(&Seen) -> f64) -> f64 {
    let mut values: Vec<f64> = seen.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn table(rest: &[f64; 3], seen: &Table, rounds: usize, seconds: f64) -> String {
    let mut out = format!("Medians of {rounds} rounds of {seconds} s, 32 connections, `synchronous=FULL`, a JWT on every request.\n\n");
    out.push_str("| | plain | limit | generated | vs plain | vs limit | p50 / p99 ms (plain) | (limit) | (generated) | CPU µs/request (plain, limit, generated) | MB under load |\n");
    out.push_str("|---|---|---|---|---|---|---|---|---|---|---|\n");
    for ((_, name), servers) in LOADS.iter().zip(seen) {
        let per_second = servers.each_ref().map(|s| median(s, |x| x.per_second));
        let times = servers.each_ref().map(|s| format!("{:.2} / {:.2}", median(s, |x| x.p50) / 1e3, median(s, |x| x.p99) / 1e3));
        let cpu = servers.each_ref().map(|s| format!("{:.0}", median(s, |x| x.cpu_micros)));
        let rss = servers.each_ref().map(|s| format!("{:.0}", median(s, |x| x.rss_mb)));
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| {name} | {:.0}/s | {:.0}/s | {:.0}/s | {:.2}x | {:.2} | {} | {} | {} | {} | {} |",
            per_second[0],
            per_second[1],
            per_second[2],
            per_second[2] / per_second[0].max(1.0),
            per_second[2] / per_second[1].max(1.0),
            times[0],
            times[1],
            times[2],
            cpu.join(", "),
            rss.join(", ")
        );
    }
    let _ = write!(out, "\nMemory at rest: plain {:.0} MB, limit {:.0} MB, generated {:.0} MB.", rest[0], rest[1], rest[2]);
    out
}

/// Puts the table between the markers of `benches/README.md`.
fn write(table: &str) -> Result<(), String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/README.md");
    let text = fs::read_to_string(&file).map_err(|e| e.to_string())?;
    let (start, end) = ("<!-- table -->\n", "<!-- end of table -->");
    let parts = text.split_once(start).and_then(|(head, rest)| Some((head, rest.split_once(end)?.1)));
    let (head, tail) = parts.ok_or("benches/README.md lacks its markers")?;
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).map_or("", |l| l.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    fs::write(&file, format!("{head}{start}{cores} cores, {model}. {table}\n{end}{tail}")).map_err(|e| e.to_string())
}
