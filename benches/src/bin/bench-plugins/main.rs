//! Benchmarks of the plugins: webhooks, web push and realtime.
//!
//! `cargo xtask bench --webhooks` and `--realtime` build and run it: `bench-plugins webhooks` and
//! `bench-plugins realtime` print the rows of a table and exit with 1 if a limit is exceeded. The
//! other arguments are for separate processes, which this program or xtask starts.
#![allow(missing_docs)] // a program

#[allow(dead_code)] // some of its items are used only by the tests of the runtime
#[path = "../../../../runtime/tests/support/around.rs"]
mod around;
#[path = "../../generated/posts.rs"]
mod posts;
mod push;
mod realtime;
mod receiver;
mod table;
mod webhooks;

use std::path::Path;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    match args[..] {
        ["receiver"] => receiver::run(),
        ["webhooks"] => {
            let folder = std::env::temp_dir().join(format!("bench-plugins-{}", std::process::id()));
            std::fs::create_dir(&folder)?;
            let failed = runtime.block_on(webhooks::measure(&folder));
            std::fs::remove_dir_all(&folder)?;
            let mut failed = failed?;
            failed.extend(push::measure()?);
            fail_if_exceeded(&failed)
        }
        ["realtime"] => fail_if_exceeded(&realtime::measure(None)?),
        ["realtime", part] => fail_if_exceeded(&realtime::measure(Some(part))?),
        [
            name @ ("realtime-server" | "publish-server" | "broadcast-server" | "fan-out-server"),
            port,
            url,
        ] => runtime.block_on(realtime::serve(name, port.parse()?, url)),
        ["webhooks-seed", file] => runtime.block_on(webhooks::seed(Path::new(file))),
        ["webhooks-server", port, url] => {
            runtime.block_on(webhooks::serve(port.parse()?, url, true))
        }
        ["events-server", port, url] => {
            runtime.block_on(webhooks::serve(port.parse()?, url, false))
        }
        ["webhooks-wait", file, messages] => {
            webhooks::until_taken(Path::new(file), messages.parse()?)
        }
        _ => Err(
            "usage: bench-plugins webhooks | bench-plugins realtime [memory|fan-out|latency|slow]"
                .into(),
        ),
    }
}

fn fail_if_exceeded(failed: &[&str]) -> Outcome<()> {
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("beyond the bound: {}", failed.join(", ")).into())
    }
}
