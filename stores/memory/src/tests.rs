//! Tests of the memory store, one or more for each plan.

use std::sync::{Arc, Barrier};

use super::*;
use linchpin_core::entity::{EntityDesc, FieldDesc, Flags, Kind, UniqueDesc};
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::{After, Assign, AssignValue, Order};
use linchpin_core::{Code, Value};

const fn fields(key: Kind) -> [FieldDesc; 4] {
    [
        FieldDesc {
            flags: Flags::PRIMARY,
            ..FieldDesc::new("id", "id", "id", key, false)
        },
        FieldDesc::new("slug", "slug", "slug", Kind::String, true),
        FieldDesc::new("rank", "rank", "rank", Kind::Integer, true),
        FieldDesc::new("kind", "kindName", "kind", Kind::String, true),
    ]
}

static BY_TEXT: [FieldDesc; 4] = fields(Kind::String);
static BY_NUMBER: [FieldDesc; 4] = fields(Kind::Integer);

const fn entity(
    name: &'static str,
    fields: &'static [FieldDesc],
    uniques: &'static [UniqueDesc],
) -> EntityDesc {
    EntityDesc {
        uniques,
        ..EntityDesc::new(name, "things", name, fields)
    }
}

static THING: EntityDesc = entity(
    "thing",
    &BY_TEXT,
    &[
        UniqueDesc {
            fields: &[1],
            global: false,
        },
        UniqueDesc {
            fields: &[2, 3],
            global: false,
        },
    ],
);
static COUNTED: EntityDesc = entity("counted", &BY_NUMBER, &[]);

fn text(t: &str) -> Value {
    Value::Text(t.to_owned())
}

fn value(v: impl Into<Option<Value>>) -> Source {
    Source::Value(v.into().unwrap_or_default())
}

fn cond(field: usize, op: Op, v: Value) -> Filter {
    Filter::cond(field, op, Operand::One(value(v)))
}

struct Fixture(Memory, &'static EntityDesc);

impl Fixture {
    fn run(&self, plan: Plan, args: Vec<Value>) -> Result<Vec<Vec<Value>>> {
        let statement = self.0.prepare(self.1, plan)?;
        match self.0.run(&statement, args, Rows::records(self.1)) {
            Reply::Ready(rows) => Ok(rows?.records.into_iter().map(<[_]>::into_vec).collect()),
            Reply::Later(_) => panic!("the memory store answers at once"),
        }
    }

    fn insert(&self, id: Value, slug: Value, rank: Value, kind: Value) -> Result<Vec<Vec<Value>>> {
        self.run(Plan::Insert, vec![id, slug, rank, kind])
    }

    fn ids(&self, filter: Filter, order: Vec<Order>) -> String {
        let all = self.run(
            Plan::Select {
                filter,
                order,
                after: None,
                limit: None,
            },
            vec![],
        );
        all.unwrap_or_else(|e| panic!("{e:?}"))
            .iter()
            .map(|r| r[0].as_text().unwrap_or("?").to_owned())
            .collect()
    }
}

fn things() -> Fixture {
    let fixture = Fixture(Memory::new(), &THING);
    for (id, slug, rank, kind) in [
        ("c", "sc", Some(2), "x"),
        ("a", "sa", Some(1), "y"),
        ("d", "", None, "x"),
        ("b", "sb", Some(2), "z"),
    ] {
        let slug = if slug.is_empty() {
            Value::Null
        } else {
            text(slug)
        };
        let done = fixture.insert(
            text(id),
            slug,
            rank.map_or(Value::Null, Value::Int),
            text(kind),
        );
        assert!(
            done.is_ok_and(|rows| rows.is_empty()),
            "an insert with a key from the caller returns no record"
        );
    }
    fixture
}

#[test]
fn a_select_sorts_null_as_the_smallest_value() {
    let s = things();
    let by = |field, desc| vec![Order { field, desc }, Order { field: 0, desc }];
    assert_eq!(s.ids(Filter::TRUE, vec![]), "abcd");
    assert_eq!(
        s.ids(
            Filter::TRUE,
            vec![Order {
                field: 0,
                desc: true
            }]
        ),
        "dcba"
    );
    assert_eq!(s.ids(Filter::TRUE, by(2, false)), "dabc");
    assert_eq!(s.ids(Filter::TRUE, by(2, true)), "cbad");
    assert_eq!(s.ids(cond(3, Op::Eq, text("x")), by(2, false)), "dc");
    assert_eq!(s.ids(cond(2, Op::Ne, Value::Int(2)), vec![]), "ad");
    assert_eq!(s.ids(cond(0, Op::Eq, text("b")), vec![]), "b");
    assert_eq!(s.ids(cond(0, Op::Eq, text("nope")), vec![]), "");
    assert_eq!(
        s.ids(
            cond(0, Op::Eq, text("b")).and(cond(3, Op::Eq, text("x"))),
            vec![]
        ),
        ""
    );
    assert_eq!(
        s.ids(
            cond(0, Op::Eq, text("b")).or(cond(3, Op::Eq, text("x"))),
            vec![]
        ),
        "bcd"
    );
}

#[test]
fn paging_returns_every_record_once() {
    for desc in [false, true] {
        for field in [0, 1, 2, 3] {
            let s = things();
            let order = vec![Order { field, desc }, Order { field: 0, desc }];
            let whole = s.ids(Filter::TRUE, order.clone());
            let mut walked = String::new();
            let mut last: Option<Vec<Value>> = None;
            loop {
                let mut args = vec![Value::Int(1)];
                let after = last.take().map(|values| {
                    let mut slot = |v| {
                        args.push(v);
                        args.len() - 1
                    };
                    After::Keys(
                        values
                            .into_iter()
                            .map(|v| (!v.is_null()).then(|| slot(v)))
                            .collect(),
                    )
                });
                let limit = Some(Source::Arg {
                    index: 0,
                    nullable: false,
                });
                let page = s.run(
                    Plan::Select {
                        filter: Filter::TRUE,
                        order: order.clone(),
                        after,
                        limit,
                    },
                    args,
                );
                let page = page.unwrap_or_else(|e| panic!("{e:?}"));
                let Some(row) = page.first() else { break };
                assert_eq!(page.len(), 1);
                walked.push_str(row[0].as_text().unwrap_or("?"));
                last = Some(vec![row[field].clone(), row[0].clone()]);
            }
            assert_eq!(walked, whole, "field {field}, desc {desc}");
        }
    }
}

#[test]
fn a_taken_key_or_unique_value_is_a_conflict_that_names_the_fields() {
    let s = things();
    let paths = |r: Result<Vec<Vec<Value>>>| match r {
        Ok(_) => panic!("a conflict was expected"),
        Err(e) => {
            assert_eq!(e.code(), Code::Conflict);
            e.details()
                .iter()
                .map(|p| (p.path.clone(), p.code))
                .collect::<Vec<_>>()
        }
    };
    let taken = |path: &str| (path.to_owned(), "unique");
    assert_eq!(
        paths(s.insert(text("a"), Value::Null, Value::Null, Value::Null)),
        [taken("id")]
    );
    assert_eq!(
        paths(s.insert(text("e"), text("sa"), Value::Null, Value::Null)),
        [taken("slug")]
    );
    assert_eq!(
        paths(s.insert(text("e"), Value::Null, Value::Int(1), text("y"))),
        [taken("rank"), taken("kindName")]
    );
    // A unique constraint allows several nulls.
    assert!(
        s.insert(text("e"), Value::Null, Value::Null, text("x"))
            .is_ok()
    );
    assert_eq!(s.ids(Filter::TRUE, vec![]), "abcde");
}

#[test]
fn an_update_computes_from_old_values_and_returns_new_ones() {
    let s = things();
    let set = vec![
        Assign {
            field: 2,
            value: AssignValue::Add(Source::Arg {
                index: 0,
                nullable: false,
            }),
        },
        Assign {
            field: 3,
            value: AssignValue::Set(Source::Arg {
                index: 1,
                nullable: true,
            }),
        },
    ];
    let rows = s.run(
        Plan::Update {
            filter: cond(2, Op::Eq, Value::Null),
            set: set.clone(),
            pick: None,
        },
        vec![Value::Int(7), Value::Null],
    );
    let rows = rows.unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(
        rows,
        [vec![text("d"), Value::Null, Value::Int(7), Value::Null]]
    );
    let none = s.run(
        Plan::Update {
            filter: cond(0, Op::Eq, text("zz")),
            set,
            pick: None,
        },
        vec![Value::Int(7), Value::Null],
    );
    assert!(none.is_ok_and(|rows| rows.is_empty()));
}

#[test]
fn a_violated_unique_constraint_leaves_all_records_unchanged() {
    let s = things();
    let before = s
        .run(
            Plan::Select {
                filter: Filter::TRUE,
                order: vec![],
                after: None,
                limit: None,
            },
            vec![],
        )
        .ok();
    let same_slug = vec![Assign {
        field: 1,
        value: AssignValue::Set(value(text("new"))),
    }];
    let error = s.run(
        Plan::Update {
            filter: Filter::TRUE,
            set: same_slug.clone(),
            pick: None,
        },
        vec![],
    );
    assert!(error.is_err_and(|e| e.code() == Code::Conflict));
    let after = s
        .run(
            Plan::Select {
                filter: Filter::TRUE,
                order: vec![],
                after: None,
                limit: None,
            },
            vec![],
        )
        .ok();
    assert_eq!(before, after);
    // The unique index is unchanged, too: the old value is still taken, the new one is free.
    assert!(
        s.insert(text("e"), text("sa"), Value::Null, Value::Null)
            .is_err()
    );
    assert!(
        s.insert(text("e"), text("new"), Value::Null, Value::Null)
            .is_ok()
    );
    // A record may keep its own value.
    let own = vec![Assign {
        field: 1,
        value: AssignValue::Set(value(text("sa"))),
    }];
    assert!(
        s.run(
            Plan::Update {
                filter: cond(0, Op::Eq, text("a")),
                set: own,
                pick: None
            },
            vec![]
        )
        .is_ok()
    );
    assert!(
        s.run(
            Plan::Update {
                filter: cond(0, Op::Eq, text("b")),
                set: same_slug,
                pick: None
            },
            vec![]
        )
        .is_err()
    );
}

#[test]
fn the_unique_values_of_a_deleted_record_are_free() {
    let s = things();
    let gone = s
        .run(
            Plan::Delete {
                filter: cond(3, Op::Eq, text("x")),
                pick: None,
            },
            vec![],
        )
        .unwrap_or_default();
    assert_eq!(
        gone.iter()
            .filter_map(|r| r[0].as_text())
            .collect::<Vec<_>>(),
        ["c", "d"]
    );
    assert_eq!(s.ids(Filter::TRUE, vec![]), "ab");
    assert!(
        s.insert(text("c2"), text("sc"), Value::Int(2), text("x"))
            .is_ok()
    );
    let count = |filter| {
        s.run(Plan::Exists { filter }, vec![])
            .map(|rows| rows.len())
            .ok()
    };
    assert_eq!(count(cond(0, Op::Eq, text("c2"))), Some(1));
    assert_eq!(count(cond(0, Op::Eq, text("c"))), Some(0));
    assert_eq!(count(Filter::TRUE), Some(1));
}

#[test]
fn the_store_generates_integer_keys_and_returns_them() {
    let s = Fixture(Memory::new(), &COUNTED);
    let key = |r: Result<Vec<Vec<Value>>>| {
        r.ok()
            .and_then(|rows| rows.first().map(|row| row[0].clone()))
    };
    let null = || Value::Null;
    assert_eq!(
        key(s.insert(null(), null(), null(), null())),
        Some(Value::Int(1))
    );
    assert_eq!(
        key(s.insert(null(), null(), null(), null())),
        Some(Value::Int(2))
    );
    assert_eq!(key(s.insert(Value::Int(10), null(), null(), null())), None);
    assert_eq!(
        key(s.insert(null(), null(), null(), null())),
        Some(Value::Int(11))
    );
    assert!(s.insert(Value::Int(11), null(), null(), null()).is_err());
    // The store never generates a text key.
    assert!(things().insert(null(), null(), null(), null()).is_err());
    assert!(
        s.run(Plan::Insert, vec![null()])
            .is_err_and(|e| e.code() == Code::Internal)
    );
}

#[test]
fn one_of_many_concurrent_creates_succeeds_and_no_increment_is_lost() {
    let s = Arc::new(Fixture(Memory::new(), &THING));
    let barrier = Arc::new(Barrier::new(25));
    let threads: Vec<_> = (0..25)
        .map(|n| {
            let (s, barrier) = (Arc::clone(&s), Arc::clone(&barrier));
            std::thread::spawn(move || {
                barrier.wait();
                let won = s
                    .insert(
                        text(&format!("k{n}")),
                        text("same"),
                        Value::Null,
                        Value::Null,
                    )
                    .is_ok();
                let bump = vec![Assign {
                    field: 2,
                    value: AssignValue::Add(value(Value::Int(2))),
                }];
                let bumped = s.run(
                    Plan::Update {
                        filter: Filter::TRUE,
                        set: bump,
                        pick: None,
                    },
                    vec![],
                );
                assert!(bumped.is_ok_and(|rows| rows.len() == 1));
                won
            })
        })
        .collect();
    let winners = threads
        .into_iter()
        .filter_map(|t| t.join().ok())
        .filter(|won| *won)
        .count();
    assert_eq!(winners, 1);
    let rows = s
        .run(
            Plan::Select {
                filter: Filter::TRUE,
                order: vec![],
                after: None,
                limit: None,
            },
            vec![],
        )
        .unwrap_or_default();
    assert_eq!(
        rows.iter().map(|r| r[2].clone()).collect::<Vec<_>>(),
        [Value::Int(50)]
    );
}

#[test]
fn known_capabilities_are_supported_and_unknown_ones_are_not() {
    let s = Memory::new();
    for name in [
        "core.list",
        "operation.lookup",
        "atomic.transition",
        "transaction",
        "batch.atomic",
        "unique.reservation",
    ] {
        assert!(s.supports(name), "{name}");
    }
    for name in [
        "",
        "core",
        "operation.teleport",
        "atomic.",
        "atomic.teleport",
    ] {
        assert!(!s.supports(name), "{name}");
    }
}
