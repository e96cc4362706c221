//! Start-up compares the capabilities that operations need with those of the store, before a port
//! is opened.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use linchpin::entity::{
    ComputedDesc, EntityDesc, FieldDesc, Gate, Kind as FieldKind, SourceLine, UniqueDesc,
    VersionDesc,
};
use linchpin::filter::{Op, OperandSpec, SourceSpec};
use linchpin::http::PolicyDesc;
use linchpin::operation::{
    AssignSpec, Batch, ComputedAggregate, Exists, Increment, Kind, OpSpec, Output, Transition,
};
use linchpin::store::{Plan, Reply, Rows, Statement, Store, StoreKind};
use linchpin::{App, EntityEntry, JwtAuth, Package, Result, StartupError, Value, ValueRef};

use crate::fixture::{NOTE_BASE, PUBLIC, config, package};

/// A store with the capabilities for reads and the capabilities in this list. Any call of the store
/// fails the test.
struct Plain(&'static [&'static str]);

impl Store for Plain {
    fn kind(&self) -> &'static StoreKind {
        static KIND: StoreKind = StoreKind::new("redis", &["redis"], "redis://…");
        &KIND
    }

    fn supports(&self, capability: &str) -> bool {
        capability.starts_with("core.")
            || capability.starts_with("operation.")
            || self.0.contains(&capability)
    }

    fn prepare(&self, _: &'static EntityDesc, _: Plan) -> Result<Arc<Statement>> {
        panic!("prepared")
    }

    fn run<'a>(&'a self, _: &'a Arc<Statement>, _: Vec<Value>, _: Rows) -> Reply<'a> {
        panic!("run")
    }

    fn may_take_long(&self, _: &Statement) -> bool {
        false
    }

    fn computes(&self, _: bool) -> bool {
        false
    }

    fn schema(&self) -> Option<&dyn linchpin::schema::SchemaStore> {
        panic!("connected")
    }

    fn ready(&self) -> Pin<Box<dyn Future<Output = Result<()>> + Send + '_>> {
        panic!("ready")
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        panic!("closed")
    }
}

static COUNTER: EntityDesc = EntityDesc {
    name: "Counter",
    storage_name: "counters",
    path: "counters",
    uniques: &[UniqueDesc {
        fields: &[1],
        global: false,
    }],
    at: SourceLine {
        file: "src/counter.rs",
        line: 6,
    },
    ..NOTE_BASE
};
static REPORT: EntityDesc = EntityDesc {
    name: "Report",
    storage_name: "reports",
    path: "reports",
    version: Some(VersionDesc {
        field: 1,
        required_on_write: false,
    }),
    at: SourceLine {
        file: "src/report.rs",
        line: 2,
    },
    ..NOTE_BASE
};

const BY_ID: &[AssignSpec] = &[AssignSpec {
    field: 0,
    value: SourceSpec::Param(0),
}];
static BUMP: OpSpec = OpSpec {
    at: SourceLine {
        file: "src/counter.rs",
        line: 14,
    },
    ..OpSpec::new(
        "bump",
        &Increment {
            field: 1,
            by: linchpin::entity::Bound::Int(1),
            matches: BY_ID,
        },
    )
};
static FILE: OpSpec = OpSpec {
    at: SourceLine {
        file: "src/counter.rs",
        line: 20,
    },
    ..OpSpec::new("file", &Transition::new(1, &[], &[|| Value::Null], BY_ID))
};

static COUNTERS: Package = package(
    "counters",
    &[
        EntityEntry {
            desc: &REPORT,
            operations: &[],
            routes: &[],
        },
        EntityEntry {
            desc: &COUNTER,
            operations: &[&FILE, &BUMP],
            routes: &[],
        },
    ],
);

#[tokio::test]
async fn start_up_lists_every_missing_capability_and_touches_nothing() {
    let error = App::new(config())
        .plugin(JwtAuth::new())
        .package(&COUNTERS)
        .store(Arc::new(Plain(&[])))
        .start()
        .await
        .unwrap_err();
    let stores = if cfg!(feature = "postgres") {
        "memory, sqlite or postgres"
    } else {
        "memory or sqlite"
    };
    let expected = format!(
        "2 entities cannot run on their configured store\n\
         \n\
         entity `Counter` on store `redis`:\n  \
           missing `atomic.increment`\n    \
             required by operation `bump` (increment) at src/counter.rs:14\n    \
             reason: standard key-value wiring reads, changes and writes in separate steps\n  \
           missing `atomic.transition`\n    \
             required by operation `file` (transition) at src/counter.rs:20\n    \
             reason: standard key-value wiring reads, changes and writes in separate steps\n  \
           missing `unique.reservation`\n    \
             required by unique (text) at src/counter.rs:6\n    \
             reason: key-value wiring cannot reserve a value atomically\n  \
           help: use {stores}\n\
         \n\
         entity `Report` on store `redis`:\n  \
           missing `atomic.version`\n    \
             required by version at src/report.rs:2\n    \
             reason: standard key-value wiring reads, changes and writes in separate steps\n  \
           help: use {stores}\n"
    );
    assert_eq!(error.message(), expected);
    let Some(StartupError::Capabilities(gaps)) = error.startup() else {
        panic!("{error:?}")
    };
    let found: Vec<_> = gaps
        .iter()
        .map(|gap| (gap.entity, gap.missing.len()))
        .collect();
    assert_eq!(found, [("Counter", 3), ("Report", 1)]);
}

/// `atomic` needs further capabilities.
#[tokio::test]
async fn atomic_operations_need_further_capabilities() {
    const SAME: linchpin::filter::FilterSpec =
        linchpin::filter::FilterSpec::Cond(1, Op::Eq, OperandSpec::One(SourceSpec::Param(0)));
    const COUNT: &[Output] = &[Output::count("")];
    const fn at(line: u32, spec: OpSpec) -> OpSpec {
        OpSpec {
            at: SourceLine {
                file: "src/tally.rs",
                line,
            },
            ..spec
        }
    }
    static RECOUNT: OpSpec = at(
        4,
        OpSpec::new(
            "recount",
            &ComputedAggregate::new(&TALLY, SAME, COUNT).into(1, BY_ID),
        ),
    );
    static SETTLE: OpSpec = at(
        9,
        OpSpec::new(
            "settle",
            &ComputedAggregate::new(&TALLY, SAME, COUNT)
                .into(1, BY_ID)
                .atomic(),
        ),
    );
    static CLEAR: OpSpec = at(14, OpSpec::new("clear", &Batch::delete(SAME)));
    static SWEEP: OpSpec = at(19, OpSpec::new("sweep", &Batch::delete(SAME).atomic()));
    static TALLIES: Package = package(
        "tallies",
        &[EntityEntry {
            desc: &TALLY,
            operations: &[&RECOUNT, &SETTLE, &CLEAR, &SWEEP],
            routes: &[],
        }],
    );
    let start = async |granted| {
        App::new(config())
            .plugin(JwtAuth::new())
            .package(&TALLIES)
            .store(Arc::new(Plain(granted)))
            .start()
            .await
    };
    let gaps = |error: &linchpin::Error| -> Vec<(&str, String)> {
        let Some(StartupError::Capabilities(gaps)) = error.startup() else {
            panic!("{error:?}")
        };
        gaps.iter()
            .flat_map(|gap| &gap.missing)
            .map(|gap| (gap.capability, gap.required_by.clone()))
            .collect()
    };
    let expected = [
        (
            "batch.atomic",
            "operation `sweep` (batch) at src/tally.rs:19".to_owned(),
        ),
        (
            "computed.atomic",
            "operation `settle` (computed_aggregate) at src/tally.rs:9".to_owned(),
        ),
    ];
    assert_eq!(
        gaps(&start(&["batch.write", "computed.write"]).await.unwrap_err()),
        expected
    );
    let all = gaps(&start(&[]).await.unwrap_err());
    let capabilities: Vec<&str> = all.iter().map(|(capability, _)| *capability).collect();
    assert_eq!(
        capabilities,
        [
            "batch.atomic",
            "batch.write",
            "computed.atomic",
            "computed.write"
        ]
    );
}

static TALLY: EntityDesc = EntityDesc {
    name: "Tally",
    storage_name: "tallies",
    path: "tallies",
    ..NOTE_BASE
};

/// An audited change writes its record and its entry in one transaction. A batch writes the
/// computed fields of its records in one transaction.
#[tokio::test]
async fn audited_routes_and_batches_over_computed_fields_need_a_store_with_transactions() {
    const ANY: linchpin::filter::FilterSpec =
        linchpin::filter::FilterSpec::Cond(1, Op::Eq, OperandSpec::One(SourceSpec::Param(0)));
    const TEXT: &[AssignSpec] = &[AssignSpec {
        field: 1,
        value: SourceSpec::Param(0),
    }];
    const fn spec(name: &'static str, line: u32, kind: &'static dyn Kind) -> OpSpec {
        OpSpec {
            at: SourceLine {
                file: "src/member.rs",
                line,
            },
            ..OpSpec::new(name, kind)
        }
    }
    const AUDIT: PolicyDesc = PUBLIC.audit("change");
    // No transaction is necessary for `FIND`, because reads are not audited; for the disabled
    // route, because it writes nothing; and for `PURGE`, because it writes no computed field.
    static BAN: OpSpec = OpSpec {
        policy: AUDIT,
        ..spec("ban", 10, &Batch::update(ANY, TEXT))
    };
    static FIND: OpSpec = OpSpec {
        policy: AUDIT,
        ..spec("find", 20, &Exists::new(TEXT))
    };
    static RENAME: OpSpec = spec("rename", 30, &Batch::update(ANY, TEXT));
    static PURGE: OpSpec = spec("purge", 40, &Batch::delete(ANY));
    static MEMBER: EntityDesc = EntityDesc {
        name: "Member",
        storage_name: "members",
        path: "members",
        routes: [
            AUDIT,
            AUDIT,
            AUDIT,
            PolicyDesc::INHERIT,
            PolicyDesc {
                disabled: true,
                ..AUDIT
            },
        ],
        at: SourceLine {
            file: "src/member.rs",
            line: 3,
        },
        ..NOTE_BASE
    };
    static LENGTH: EntityDesc = EntityDesc {
        name: "Length",
        storage_name: "lengths",
        path: "lengths",
        fields: &[
            NOTE_BASE.fields[0],
            NOTE_BASE.fields[1],
            FieldDesc {
                computed: Some(ComputedDesc {
                    value: |_| Ok(Value::Int(1)),
                    blank: || ValueRef::Int(0),
                    from: &[1],
                    name: "length",
                    body: "",
                }),
                ..FieldDesc::new("length", "length", "length", FieldKind::Integer, false)
            },
        ],
        ..NOTE_BASE
    };
    static MEMBERS: Package = package(
        "members",
        &[
            EntityEntry {
                desc: &MEMBER,
                operations: &[&BAN, &FIND, &PURGE],
                routes: &[],
            },
            EntityEntry {
                desc: &LENGTH,
                operations: &[&RENAME, &PURGE],
                routes: &[],
            },
        ],
    );
    let error = App::new(config())
        .plugin(JwtAuth::new())
        .package(&MEMBERS)
        .store(Arc::new(Plain(&["batch.write"])))
        .start()
        .await
        .unwrap_err();
    let Some(StartupError::Capabilities(gaps)) = error.startup() else {
        panic!("{error:?}")
    };
    let found: Vec<(&str, &str, &str)> = gaps
        .iter()
        .flat_map(|gap| gap.missing.iter().map(move |missing| (gap.entity, missing)))
        .map(|(entity, missing)| (entity, missing.capability, &*missing.required_by))
        .collect();
    assert_eq!(
        found,
        [
            (
                "Length",
                "transaction",
                "computed fields that `rename` (batch) writes at src/member.rs:30"
            ),
            (
                "Member",
                "transaction",
                "`audit` of operation `ban` at src/member.rs:10"
            ),
            (
                "Member",
                "transaction",
                "`audit` of route `create` at src/member.rs:3"
            ),
        ]
    );
}

static FILED: EntityDesc = EntityDesc {
    name: "Filed",
    storage_name: "filed",
    path: "filed",
    gates: &[Gate::new(1, &PLAIN)],
    at: SourceLine {
        file: "src/filed.rs",
        line: 3,
    },
    ..NOTE_BASE
};
static PLAIN: EntityDesc = EntityDesc {
    name: "Plain",
    storage_name: "plain",
    path: "plain",
    ..NOTE_BASE
};

/// A gate needs transactions, and its target must be mounted.
#[tokio::test]
async fn a_gate_needs_a_store_with_transactions_and_a_mounted_entity() {
    static BOTH: Package = package(
        "filing",
        &[
            EntityEntry {
                desc: &FILED,
                operations: &[],
                routes: &[],
            },
            EntityEntry {
                desc: &PLAIN,
                operations: &[],
                routes: &[],
            },
        ],
    );
    static ALONE: Package = package(
        "filing",
        &[EntityEntry {
            desc: &FILED,
            operations: &[],
            routes: &[],
        }],
    );
    let error = App::new(config())
        .plugin(JwtAuth::new())
        .package(&BOTH)
        .store(Arc::new(Plain(&[])))
        .start()
        .await
        .unwrap_err();
    let stores = if cfg!(feature = "postgres") {
        "memory, sqlite or postgres"
    } else {
        "memory or sqlite"
    };
    let expected = format!(
        "1 entity cannot run on its configured store\n\
         \n\
         entity `Filed` on store `redis`:\n  \
           missing `transaction`\n    \
             required by gate `text` at src/filed.rs:3\n    \
             reason: standard key-value wiring reads, changes and writes in separate steps\n  \
           help: use {stores}\n"
    );
    assert_eq!(error.message(), expected);
    let error_text = crate::fixture::refused(
        App::new(config())
            .plugin(JwtAuth::new())
            .package(&ALONE)
            .start()
            .await,
    );
    let expected = "gate `text` of `Filed` (src/filed.rs:3) refers to `Plain`, but no package of this app lists it";
    assert!(error_text.contains(expected), "{error_text}");
    assert!(
        App::new(config())
            .plugin(JwtAuth::new())
            .package(&BOTH)
            .start()
            .await
            .is_ok()
    );
}

/// For a store that is not compiled in, the only message is the missing feature.
#[cfg(not(feature = "postgres"))]
#[tokio::test]
async fn a_store_that_is_not_in_the_build_is_named() {
    static COUNTERS: Package = package(
        "counters",
        &[EntityEntry {
            desc: &COUNTER,
            operations: &[],
            routes: &[],
        }],
    );
    let app = App::new(config().database("postgres://user:hush@host/db")).package(&COUNTERS);
    let error_text = crate::fixture::refused(app.start().await);
    assert!(
        error_text.contains("no `postgres` feature")
            && !error_text.contains("missing")
            && !error_text.contains("hush"),
        "{error_text}"
    );
}
