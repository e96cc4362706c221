//! Measures the cost of authentication: the time that a checked session adds to a request, and the
//! slowdown of other routes during concurrent sign-ins. It also checks that response times do not
//! reveal whether an account exists.
//!
//! `cargo xtask bench --auth` builds and runs it; nothing else should run on the machine. It exits
//! with 1 if a bound is exceeded. With two arguments, the position of a route in the first table
//! (from 0) and a number of requests, it sends only these requests, so that callgrind can count
//! their instructions.
#![allow(missing_docs)] // a program

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linchpin::prelude::*;
use linchpin_auth::Auth;
use linchpin_benches::account::{Account, Accounts, account};
use linchpin_benches::client::{CONNECTIONS, Load, drive};
use linchpin_benches::id;
use linchpin_benches::line::Line;
use linchpin_benches::times::{
    CONCEALED, OPEN, Outcome, PASSWORD, Pair, USERS, known, post, register, with_measured_features,
    without,
};
use serde_json::{Value as Json, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A record that anonymous callers may read.
#[entity(namespace = "bench", path = "open", routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Open {
    #[field(primary)]
    pub id: String,
    pub text: String,
}

/// The same record, for authenticated callers only.
#[entity(namespace = "bench", path = "closed", routes(auth = "userAuth"))]
#[derive(Clone, Debug)]
pub struct Closed {
    #[field(primary)]
    pub id: String,
    pub text: String,
}

static ENTRY: Package = package!(name = "bench", entities = [entity(Open), entity(Closed)]);

/// The number of requests for known names, and the number of requests for unknown names; the two
/// kinds alternate. With 200 requests, the median time of a password hash is accurate to 2 ms only.
const REQUESTS: usize = 600;

/// The minimum throughput with a checked session, as a share of that without one.
const MIN_THROUGHPUT: f64 = 0.9;
/// Rounds of each load; the median counts.
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(1);

/// There is one user per connection, because each client has its own session.
const _: () = assert!(USERS == CONNECTIONS);

/// The number of concurrent sign-ins, and the factor by which they may raise the p99 of other
/// routes.
const SIGN_INS: usize = 64;
const MAX_SLOWDOWN: f64 = 2.0;
/// The number of turns, and the number of rounds of each kind in a turn. A turn measures a route
/// without and then during sign-ins, so that a change of the machine affects both.
const TURNS: usize = 3;
const PER_TURN: usize = 3;

fn main() -> Outcome<()> {
    let args: Vec<usize> = std::env::args()
        .skip(1)
        .map(|arg| arg.parse())
        .collect::<Result<_, _>>()?;
    let folder = std::env::temp_dir().join(format!("linchpin-bench-auth-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let outcome = measure(&folder, args.first().copied().zip(args.get(1).copied()));
    std::fs::remove_dir_all(&folder)?;
    if outcome? {
        Ok(())
    } else {
        std::process::exit(1)
    }
}

async fn start(
    folder: &std::path::Path,
    name: &str,
    concealed: bool,
) -> Outcome<linchpin::Running> {
    let database = format!("sqlite:{}", folder.join(name).display());
    let config = Config::new()
        .signing_secret("a-secret-of-benches-of-32-bytes-or-more")
        .port(0)
        .database(database);
    Ok(App::new(config)
        .plugin(with_measured_features(Auth::new(), concealed))
        .plugin(Accounts::default())
        .package(&ENTRY)
        .start()
        .await?)
}

fn get(path: &str, token: &str) -> Vec<u8> {
    let credential = if token.is_empty() {
        String::new()
    } else {
        format!("authorization: Bearer {token}\r\n")
    };
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\n{credential}\r\n").into_bytes()
}

fn millis(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1000.0)
}

fn measure(folder: &std::path::Path, count: Option<(usize, usize)>) -> Outcome<bool> {
    // The server gets as many threads as in the other benchmarks; this thread sends the requests.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let running = runtime.block_on(start(folder, "open.db", false))?;
    let address = running.address();
    let mut line = Line::to(address)?;
    let mut tokens = Vec::new();
    // Counting uses one user, because hashing a password takes as many instructions as thousands
    // of requests.
    for user in 0..if count.is_some() { 1 } else { USERS } {
        let (status, body, _) = line.ask(&register(&known(user)))?;
        assert_eq!(status, 201, "{}", String::from_utf8_lossy(body));
        tokens.push(
            serde_json::from_slice::<Json>(body)?["token"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        );
    }
    // The sign-ins use another user, because an account has a limited number of sessions.
    line.ask(&register("busy@x.test"))?;
    runtime.block_on(async {
        let service = running
            .adapters()
            .provided::<linchpin_auth::AuthService>()?;
        for user in 0..USERS {
            service
                .create_user(linchpin_auth::NewUser::new(without(user)))
                .await?;
        }
        let cx = Cx::system("bench");
        running
            .adapter::<Open>()?
            .create(
                &cx,
                OpenCreate {
                    id: "a".into(),
                    text: "text".into(),
                },
            )
            .await?;
        running
            .adapter::<Closed>()?
            .create(
                &cx,
                ClosedCreate {
                    id: "a".into(),
                    text: "text".into(),
                },
            )
            .await?;
        for user in 0..USERS {
            running
                .adapter::<Account>()?
                .create(&cx, account(&id(user), user))
                .await?;
        }
        Ok::<(), linchpin::Error>(())
    })?;

    if let Some((route, mut requests)) = count {
        let MeasuredRoute {
            name,
            requests: route_requests,
            ..
        } = routes(&tokens)
            .into_iter()
            .nth(route)
            .ok_or("there is no such route")?;
        println!("{name}");
        let load = drive(address, CONNECTIONS, |into| {
            into.extend_from_slice(&route_requests[0]);
            requests = requests.saturating_sub(1);
            requests > 0
        })?;
        runtime.block_on(running.stop())?;
        return Ok(load.failed == 0);
    }
    let mut holds = costs(address, &tokens)?;
    holds &= during_sign_ins(address, &tokens)?;
    // The server has closed the idle first connection.
    let mut line = Line::to(address)?;
    println!("\n## Responses that must not reveal whether an account exists\n");
    println!(
        "| request | known account, ms | unknown account, ms | difference | bound |\n|---|---|---|---|---|"
    );
    holds &= times(&mut line, &OPEN)?;
    let concealed_app = runtime.block_on(start(folder, "concealed.db", true))?;
    let mut concealed_line = Line::to(concealed_app.address())?;
    for user in 0..USERS {
        concealed_line.ask(&register(&known(user)))?;
    }
    holds &= times(&mut concealed_line, &CONCEALED)?;
    drop((line, concealed_line));
    runtime.block_on(async {
        concealed_app.stop().await?;
        running.stop().await
    })?;
    println!(
        "\n{}",
        if holds {
            "All bounds hold."
        } else {
            "A bound does not hold."
        }
    );
    Ok(holds)
}

/// Whether responses take the same time for known and for unknown names.
fn times(line: &mut Line, pairs: &[Pair]) -> Outcome<bool> {
    let mut holds = true;
    for pair in pairs {
        let times = pair.ask(line, 0, REQUESTS)?;
        let [known, unknown, apart, bound] =
            [times.known, times.unknown, times.apart(), times.bound()].map(millis);
        println!(
            "| {} | {known} | {unknown} | {apart} ms | {bound} ms |",
            pair.name
        );
        holds &= times.holds();
    }
    Ok(holds)
}

fn median<T: Ord + Copy>(of: &mut [T]) -> T {
    of.sort_unstable();
    of[of.len() / 2]
}

/// Keeps the connections busy with these requests, in turn, for one round.
fn round(address: SocketAddr, requests: &[Vec<u8>]) -> Outcome<Load> {
    let until = Instant::now() + ROUND;
    let mut turns = requests.iter().cycle();
    let load = drive(address, CONNECTIONS, |into| {
        into.extend_from_slice(turns.next().map_or(&[], Vec::as_slice));
        Instant::now() < until
    })?;
    if load.failed > 0 {
        Err(format!("{} requests were refused", load.failed).into())
    } else {
        Ok(load)
    }
}

/// A route whose cost is measured.
struct MeasuredRoute {
    name: &'static str,
    /// One request per user.
    requests: Vec<Vec<u8>>,
    /// The position of the route that does the same without authentication.
    baseline: usize,
}

/// The routes, each after the route that it is compared with.
fn routes(tokens: &[String]) -> [MeasuredRoute; 5] {
    let measured_route = |name, path: &str, signed: bool, baseline| {
        let of = |(user, token): (usize, &String)| {
            get(
                &path.replace("{id}", &id(user)),
                if signed { token } else { "" },
            )
        };
        MeasuredRoute {
            name,
            requests: tokens.iter().enumerate().map(of).collect(),
            baseline,
        }
    };
    [
        measured_route("a record by its key, `auth = none`", "/open/a", false, 0),
        measured_route("the same, with an unnecessary token", "/open/a", true, 0),
        measured_route("the same, `auth = \"userAuth\"`", "/closed/a", true, 0),
        measured_route(
            "the work of `/auth/me`, `auth = none`",
            "/accounts/{id}",
            false,
            3,
        ),
        measured_route("`GET /auth/me`", "/auth/me", true, 3),
    ]
}

/// The cost of a checked session: requests per second with and without it, alternating.
fn costs(address: SocketAddr, tokens: &[String]) -> Outcome<bool> {
    let routes = routes(tokens);
    // For each round: requests per second, the median and the 99th percentile in microseconds.
    let mut seen: [Vec<(u32, u32, u32)>; 5] = Default::default();
    for _ in 0..ROUNDS {
        for (MeasuredRoute { requests, .. }, seen) in routes.iter().zip(&mut seen) {
            let load = round(address, requests)?;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // thousands
            seen.push((
                load.per_second() as u32,
                load.quantile(0.5),
                load.quantile(0.99),
            ));
        }
    }
    println!("## Cost of a checked session\n");
    println!(
        "| route | requests/s | relative to `auth = none` | p50 ms | p99 ms |\n|---|---|---|---|---|"
    );
    let all = |of: fn(&(u32, u32, u32)) -> u32| -> Vec<f64> {
        seen.iter()
            .map(|seen| f64::from(median(&mut seen.iter().map(of).collect::<Vec<_>>())))
            .collect()
    };
    let (rates, p50, p99) = (all(|seen| seen.0), all(|seen| seen.1), all(|seen| seen.2));
    let mut holds = true;
    for (at, MeasuredRoute { name, baseline, .. }) in routes.iter().enumerate() {
        let kept = rates[at] / rates[*baseline];
        holds &= kept >= MIN_THROUGHPUT;
        println!(
            "| {name} | {:.0} | {kept:.2} | {:.2} | {:.2} |",
            rates[at],
            p50[at] / 1e3,
            p99[at] / 1e3
        );
    }
    Ok(holds)
}

/// The 99th percentile of a route under load, alone and during sign-ins.
fn during_sign_ins(address: SocketAddr, tokens: &[String]) -> Outcome<bool> {
    println!("\n## Other routes during {SIGN_INS} concurrent sign-ins\n");
    println!(
        "| route | alone, p99 ms | during sign-ins, p99 ms | alone, requests/s | during sign-ins, requests/s |\n|---|---|---|---|---|"
    );
    let (mut holds, mut meanwhile) = (true, String::new());
    let [open, _, closed, ..] = routes(tokens);
    for (name, requests) in [
        ("`auth = none`", open.requests),
        ("`auth = \"userAuth\"`", closed.requests),
    ] {
        let all = |loads: &[Load]| {
            let rate = median(
                &mut loads
                    .iter()
                    .map(|load| load.per_second() as u64)
                    .collect::<Vec<_>>(),
            );
            (
                f64::from(median(
                    &mut loads
                        .iter()
                        .map(|load| load.quantile(0.99))
                        .collect::<Vec<_>>(),
                )) / 1e3,
                rate,
            )
        };
        let mut alone = Vec::new();
        let mut busy = Vec::new();
        let (mut done, mut failed, mut rates) = (0, 0, Vec::new());
        for _ in 0..TURNS {
            for _ in 0..PER_TURN {
                alone.push(round(address, &requests)?);
            }
            let stop = Arc::new(AtomicBool::new(false));
            let logins = std::thread::spawn({
                let stop = Arc::clone(&stop);
                let login = post(
                    "/auth/login",
                    &json!({ "email": "busy@x.test", "password": PASSWORD }),
                );
                move || {
                    drive(address, SIGN_INS, |into| {
                        into.extend_from_slice(&login);
                        !stop.load(Ordering::Relaxed)
                    })
                }
            });
            std::thread::sleep(Duration::from_millis(300));
            for _ in 0..PER_TURN {
                busy.push(round(address, &requests)?);
            }
            stop.store(true, Ordering::Relaxed);
            let logins = logins.join().map_err(|_| "the sign-ins stopped early")??;
            done += logins.micros.len();
            failed += logins.failed;
            rates.push(logins.per_second() as u64);
        }
        let ((alone, alone_rate), (busy, busy_rate)) = (all(&alone), all(&busy));
        println!("| {name} | {alone:.2} | {busy:.2} | {alone_rate} | {busy_rate} |");
        // Printed after the table, because any other line would end the table.
        write!(
            meanwhile,
            "\n{done} sign-ins succeeded during {name}, {}/s; the queue refused {failed} (503).\n",
            median(&mut rates)
        )?;
        holds &= busy <= alone * MAX_SLOWDOWN;
    }
    print!("{meanwhile}");
    Ok(holds)
}
