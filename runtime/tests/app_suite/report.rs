//! The commands `routes` and `graph`, as a program prints them.

use std::process::{Command, Output};

use linchpin::entity::{
    DefaultDesc, EntityDesc, EnumDesc, FieldDesc, Flags, Kind, OnDelete, Relation, SourceLine,
};
use linchpin::filter::FilterSpec;
use linchpin::http::{Nothing, PluginCall, PluginRoute, Reply, Route};
use linchpin::operation::{AssignSpec, Batch, Method, OpSpec, RouteSpec, Seg, Transition};
use linchpin::{
    Adapters, App, BoxFuture, Config, EntityEntry, JwtAuth, Package, Plugin, PostCx, Result, Value,
};

use crate::fixture::{NOTE_BASE, NOTES, TWINS, package};

const STATES: EnumDesc = EnumDesc {
    name: "State",
    variants: &["open", "end", "half-way", "lost"],
};
static JOB: EntityDesc = EntityDesc {
    name: "Job",
    path: "jobs",
    storage_name: "jobs",
    fields: &[
        FieldDesc {
            default: DefaultDesc::Uuid,
            flags: Flags::PRIMARY,
            ..FieldDesc::new("id", "id", "id", Kind::String, false)
        },
        FieldDesc {
            default: DefaultDesc::Literal(|| Value::Text("open".to_owned())),
            ..FieldDesc::new("state", "state", "state", Kind::Enum(&STATES), false)
        },
        FieldDesc::new("level", "level", "level", Kind::String, true),
    ],
    at: SourceLine {
        file: "src/job.rs",
        line: 4,
    },
    ..NOTE_BASE
};
const BY_ID: &[AssignSpec] = &[AssignSpec {
    field: 0,
    value: linchpin::filter::SourceSpec::Param(0),
}];
const fn transition(
    field: usize,
    from: &'static [fn() -> Value],
    to: &'static [fn() -> Value],
) -> Transition {
    Transition::new(field, from, to, BY_ID)
}
fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}
static STOP: OpSpec = OpSpec {
    unscoped: Some("anybody may stop a job"),
    at: SourceLine {
        file: "src/job.rs",
        line: 9,
    },
    ..OpSpec::new(
        "stop",
        &transition(
            1,
            &[|| text("open"), || text("half-way")],
            &[|| text("end")],
        ),
    )
};
static HALVE: OpSpec = OpSpec::new(
    "halve",
    &transition(
        1,
        &[|| text("open")],
        &[|| text("half-way"), || text("lost")],
    ),
);
static RAISE: OpSpec = OpSpec::new(
    "raise",
    &transition(2, &[|| text("a \"b\"; <c>")], &[|| text("b")]),
);
static JOBS: Package = package(
    "jobs",
    &[EntityEntry {
        desc: &JOB,
        operations: &[&STOP, &HALVE, &RAISE],
        routes: &[],
    }],
);

/// The steps of a job, which are deleted with it.
static STEP: EntityDesc = EntityDesc {
    name: "Step",
    path: "steps",
    storage_name: "steps",
    fields: &[
        FieldDesc {
            default: DefaultDesc::Uuid,
            flags: Flags::PRIMARY,
            ..FieldDesc::new("id", "id", "id", Kind::String, false)
        },
        FieldDesc::new("job_id", "jobId", "job_id", Kind::String, false),
    ],
    relations: &[Relation::belongs_to("job", "job", || &JOB, 1).on_delete(OnDelete::Cascade)],
    ..NOTE_BASE
};
const fn mounted(spec: OpSpec, routes: &'static [RouteSpec]) -> OpSpec {
    OpSpec { routes, ..spec }
}
static END: OpSpec = mounted(
    OpSpec::new("end", &transition(1, &[|| text("open")], &[|| text("end")])),
    &[RouteSpec {
        method: Method::Post,
        segments: &[Seg::Param("id"), Seg::Lit("end")],
    }],
);
static CLEAR: OpSpec = mounted(
    OpSpec::new("clear", &Batch::delete(FilterSpec::All(&[]))),
    &[RouteSpec {
        method: Method::Post,
        segments: &[Seg::Lit("clear")],
    }],
);
static STEPS: Package = package(
    "steps",
    &[
        EntityEntry {
            desc: &JOB,
            operations: &[&END, &CLEAR],
            routes: &[],
        },
        EntityEntry {
            desc: &STEP,
            operations: &[],
            routes: &[],
        },
    ],
);

static TICKS: Route<Nothing> = Route::get("ticks", "ticks")
    .of("extending")
    .public()
    .streams("text/event-stream");
static TALK: Route<Nothing> = Route::get("talk", "talk")
    .of("extending")
    .upgrades("websocket");

/// Adds a command over the app's adapters, and records the methods that run.
struct Extending;

impl Plugin for Extending {
    fn name(&self) -> &'static str {
        "extending"
    }

    fn setup_post<'a>(&'a self, _: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            println!("set up");
            Ok(())
        })
    }

    fn routes(&self) -> Vec<PluginRoute> {
        let nothing = |_: PluginCall, _| async { Reply::empty(204) };
        vec![TICKS.bind("/", nothing), TALK.bind("/", nothing)]
    }

    fn started(&self) {
        println!("started");
    }

    fn teardown(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            println!("torn down");
            Ok(())
        })
    }

    fn commands(&self) -> Vec<linchpin::Command> {
        let count = |adapters: Adapters, args: Vec<String>| async move {
            let jobs = adapters
                .table("jobs")
                .ok_or_else(|| linchpin::Error::internal("no jobs"))?;
            Ok(format!("{} behind {}", args.len(), jobs.desc.name))
        };
        vec![linchpin::Command::over(
            "count",
            "counts what it is given",
            count,
        )]
    }
}

/// Runs this test binary as a program: a command of an app.
#[tokio::test]
#[ignore = "a program for the tests below"]
async fn program() {
    let Ok(app_name) = std::env::var("REPORT_APP") else {
        return;
    };
    let app = App::new(Config::from_env().unwrap());
    let app = match app_name.as_str() {
        "extended" => app.package(&JOBS).plugin(Extending).plugin(JwtAuth::new()),
        "twice" => {
            app.package(&JOBS)
                .plugin(Extending)
                .command("count", "counts again", |_, _| async { Ok(String::new()) })
        }
        "jobs" => app
            .package(&JOBS)
            .command("greet", "says hello", |adapters, args| async move {
                adapters
                    .table("jobs")
                    .map(|_| format!("hello {}", args.join("+")))
                    .ok_or_else(|| linchpin::Error::internal("no jobs"))
            }),
        "steps" => app.package(&STEPS),
        _ => app.package(&NOTES).package(&TWINS),
    };
    let args: Vec<String> = std::env::var("REPORT_ARGS")
        .unwrap()
        .split(' ')
        .map(str::to_owned)
        .collect();
    app.run_with(&args).await.unwrap();
    std::process::exit(0);
}

/// Runs a command of one of the apps of [`program`]. Only with the database `memory:` the app has a
/// signing secret and can open its store.
fn run(app_name: &str, args: &str, database: &str) -> (Output, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--ignored",
        "--exact",
        "--nocapture",
        "--quiet",
        "report::program",
    ]);
    command
        .env("REPORT_APP", app_name)
        .env("REPORT_ARGS", args)
        .env("LINCHPIN_DATABASE_URL", database);
    if database == "memory:" {
        command.env("LINCHPIN_SIGNING_SECRET", crate::fixture::KEY);
    } else {
        command
            .env("LINCHPIN_ENVIRONMENT", "production")
            .env_remove("LINCHPIN_SIGNING_SECRET");
    }
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    // The test harness prints this line first.
    let printed = printed
        .split_once("running 1 test\n")
        .map_or(printed.clone(), |(_, after)| after.trim_end().to_owned());
    (output, printed)
}

const NOWHERE: &str = "sqlite:/nowhere/at/all/linchpin.db";

#[test]
fn plugins_add_commands() {
    // The plugin is set up and torn down, but not started: no port is opened.
    let (output, printed) = run("extended", "count a b", "memory:");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(printed, "set up\ntorn down\n2 behind Job");
    let (_, help) = run("extended", "help", "memory:");
    for line in [
        "  count    counts what it is given",
        "  token    prints a token: --sub NAME",
        "  serve    starts the app",
    ] {
        assert!(help.contains(line), "{help}");
    }
    let (_, token) = run("extended", "token --sub alice --role admin", "memory:");
    assert_eq!(token.split('.').count(), 3, "{token}");
    let (output, _) = run("extended", "cout", "memory:");
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("unknown command `cout`; did you mean `count`?"),
        "{output:?}"
    );
    let (output, _) = run("twice", "routes", "memory:");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("two commands are named `count`"),
        "{output:?}"
    );
}

#[test]
fn the_report_marks_routes_that_stream_or_change_the_protocol() {
    let (output, printed) = run("extended", "routes --json", NOWHERE);
    assert!(output.status.success(), "{output:?}");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&printed).unwrap();
    let row = |route: &str| rows.iter().find(|r| r["route"] == route).unwrap();
    let protocol_of = |route| {
        let row = row(route);
        (&row["kind"], &row["streams"], &row["upgrades"])
    };
    let text = |text: &str| serde_json::json!(text);
    let null = serde_json::Value::Null;
    assert_eq!(
        (protocol_of("ticks"), protocol_of("talk")),
        (
            (&text("stream"), &text("text/event-stream"), &null),
            (&text("upgrade"), &null, &text("websocket"))
        )
    );
    let (_, printed) = run("extended", "routes", NOWHERE);
    assert!(
        printed.contains("stream text/event-stream") && printed.contains("upgrade websocket"),
        "{printed}"
    );
}

#[test]
fn routes_are_printed_as_json() {
    let (output, printed) = run("jobs", "routes --json", NOWHERE);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&printed).unwrap();
    let row = |method: &str, route: &str| {
        rows.iter()
            .find(|r| r["method"] == method && r["route"] == route)
            .unwrap()
            .clone()
    };
    assert_eq!(
        row("DELETE", "delete"),
        serde_json::json!({
            "method": "DELETE", "path": "/jobs/{id}", "entity": "Job", "route": "delete", "kind": "crud", "auth": "none", "roles": [],
            "streams": null, "upgrades": null, "guards": [], "permission": null, "middleware": [], "audit": null, "context": [],
            "scope": [], "unscoped": null, "events": ["jobs.deleted"], "statements": 2, "include": [], "once": [], "paging": null, "sorts": [], "source": "src/job.rs:4",
        })
    );
    assert_eq!(
        (
            row("GET", "list")["statements"].as_u64(),
            &row("GET", "list")["events"]
        ),
        (Some(1), &serde_json::json!([]))
    );
    // The report of routes does not contain operations without routes.
    assert_eq!(rows.len(), 5);
}

/// The number of statements of a deletion depends on the dependent records; other routes of the
/// same kinds have a number.
#[test]
fn cascading_deletions_have_no_fixed_number_of_statements() {
    let (output, printed) = run("steps", "routes --json", NOWHERE);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&printed).unwrap();
    let of_job = |route: &str| {
        &rows
            .iter()
            .find(|r| r["entity"] == "Job" && r["route"] == route)
            .unwrap()["statements"]
    };
    assert_eq!(
        [of_job("delete"), of_job("clear")],
        [&serde_json::Value::Null; 2]
    );
    assert_eq!(of_job("end").as_u64(), Some(2));
}

#[test]
fn mistakes_are_printed_after_their_routes() {
    let (output, printed) = run("twins", "routes", NOWHERE);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    assert!(
        printed.contains("src/note.rs:3") && printed.contains("src/twin.rs:9"),
        "{printed}"
    );
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("duplicate route GET /notes"), "{errors}");
    let (output, _) = run("jobs", "routes --jsn", NOWHERE);
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("takes `--json` and nothing else, not `--jsn`"),
        "{output:?}"
    );
}

#[test]
fn each_state_field_has_a_graph() {
    let (_, printed) = run("jobs", "graph", NOWHERE);
    assert_eq!(
        printed,
        "---\ntitle: Job.state\n---\nstateDiagram-v2\n    open\n    state \"end\" as state1\n    state \"half-way\" as state2\n    lost\n    \
         [*] --> open\n    open --> state1 : stop\n    state2 --> state1 : stop\n    open --> state2 : halve\n    open --> lost : halve\n\n\
         ---\ntitle: Job.level\n---\nstateDiagram-v2\n    state \"a #34;b#34;#59; #60;c#62;\" as state0\n    b\n    state0 --> b : raise"
    );
    let (_, printed) = run("twins", "graph", NOWHERE);
    assert_eq!(printed, "No operation is a transition.");
}

#[test]
fn commands_of_an_app_work_on_its_store() {
    let (output, printed) = run("jobs", "greet a b", "memory:");
    assert_eq!(
        (output.status.code(), printed.as_str()),
        (Some(0), "hello a+b"),
        "{output:?}"
    );
    // Without a secret, the app cannot be built.
    let (output, _) = run("jobs", "greet a b", NOWHERE);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    let (output, _) = run("jobs", "gret", NOWHERE);
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("unknown command `gret`; did you mean `greet`?"),
        "{output:?}"
    );
}
