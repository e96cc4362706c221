//! Tests of reads on the caller's thread: they are short, return the same records as the memory
//! store, and never scan.

use super::*;
use linchpin_sql::access::conjuncts;

/// A page of three records takes about 200 steps of SQLite's virtual machine. A scan of this number
/// of records takes at least 3,000.
const RECORDS: i64 = 1500;
const MAX_STEPS: i32 = 600;

async fn inline_reads_are_short(entity: &'static EntityDesc) {
    let calls = calls(entity, RECORDS, 3);
    let natives: Vec<Native> = calls
        .iter()
        .map(|(plan, _)| render(entity, plan).expect("a plan"))
        .collect();
    for spread in SPREADS {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(&folder);
        filled(entity, spread, RECORDS, &[&store]).await;
        for analyzed in [false, true] {
            if analyzed {
                // These statistics make some indexes look useless.
                sqlx::query("ANALYZE")
                    .execute(store.pool())
                    .await
                    .expect("analyzed");
            }
            let connection = connect(&folder);
            let mut checked = 0;
            for ((plan, args), native) in calls
                .iter()
                .zip(&natives)
                .filter(|(_, native)| inline(native))
            {
                let (steps, sorts) = cost(&connection, native, args);
                // A sort is allowed for a read of at most one record, and for a read that can match
                // nothing.
                let sorted = sorts > 0
                    && matches!(native.runs, Runs::Limited(_))
                    && !native.sql.contains(" AND 0");
                let measured = format!("{spread:?} {analyzed}: {steps} steps, {sorts} sorts");
                assert!(
                    steps <= MAX_STEPS && !sorted,
                    "{measured}: {plan:#?}\n{args:?}\n{}\n{}",
                    native.sql,
                    explain(&connection, native)
                );
                checked += 1;
            }
            assert!(checked > 1000, "{checked}");
        }
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inline_reads_are_short_with_text_keys() {
    inline_reads_are_short(&TEXT_KEY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inline_reads_are_short_with_number_keys() {
    inline_reads_are_short(&NUMBER_KEY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_from_any_position_agree_with_the_memory_store() {
    const FEW: i64 = 24;
    for (entity, spread) in [
        (&TEXT_KEY, Spread::Mixed),
        (&TEXT_KEY, Spread::Rising),
        (&NUMBER_KEY, Spread::Mixed),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, model) = (open(&folder), Memory::new());
        filled(entity, spread, FEW, &[&store, &model]).await;
        let connection = connect(&folder);
        for (plan, args) in calls(entity, FEW, 4) {
            let native = render(entity, &plan).expect("a plan");
            let rows = || {
                if matches!(plan, Plan::Exists { .. }) {
                    Rows::count()
                } else {
                    Rows::records(entity)
                }
            };
            let mut found = rows();
            reader::read(&connection, entity, &native, &args, &mut found).expect("rows");
            let statement = model.prepare(entity, plan.clone()).expect("a plan");
            let expected = model
                .run(&statement, args.clone(), rows())
                .await
                .expect("rows");
            let same = (found.count, &found.records) == (expected.count, &expected.records);
            assert!(
                same,
                "{plan:#?}\n{args:?}\n{}\n{:#?}\nexpected {:#?}",
                native.sql, found.records, expected.records
            );
        }
        store.close().await;
    }
}

/// Reads that must not run on the caller's thread.
#[test]
fn reads_that_may_scan_run_on_another_thread() {
    let eq = |field| Filter::eq_arg(field, 0);
    let limit = || Some(Source::Value(Value::Int(20)));
    let by = |field, desc| vec![Order { field, desc }, Order { field: ID, desc }];
    let select = |filter, order, limit| Plan::Select {
        filter,
        order,
        after: None,
        limit,
    };
    let related = |field| Plan::Related {
        filter: Filter::TRUE,
        field,
        values: 0,
        order: by(CREATED, false),
        limit: limit(),
    };
    let contains = Filter::cond(
        TITLE,
        Op::Contains,
        Operand::One(Source::Arg {
            index: 0,
            nullable: false,
        }),
    );
    let in_pool = [
        ("no limit", select(eq(STATUS_FIELD), Vec::new(), None)),
        (
            "no index on the filter",
            select(eq(TITLE), Vec::new(), limit()),
        ),
        (
            "a further filter that is not in the index",
            select(eq(TITLE), by(CREATED, false), limit()),
        ),
        (
            "a filter with an index and an order with another",
            select(eq(CATEGORY), by(CREATED, false), limit()),
        ),
        (
            "no index on the order",
            select(Filter::TRUE, by(TITLE, false), limit()),
        ),
        (
            "an order that ends inside an index",
            select(Filter::TRUE, by(OWNER, false), limit()),
        ),
        (
            "nulls of a unique",
            select(Filter::TRUE, by(EMAIL, false), limit()),
        ),
        (
            "either of two",
            select(eq(CREATED).or(eq(CATEGORY)), Vec::new(), limit()),
        ),
        ("text within", Plan::Exists { filter: contains }),
        (
            "existence without an index",
            Plan::Exists { filter: eq(TITLE) },
        ),
        (
            "one value twice",
            Plan::Exists {
                filter: eq(CATEGORY).and(eq(CATEGORY)),
            },
        ),
        ("values of a field without an index", related(TITLE)),
        (
            "one of two fields of a unique constraint",
            Plan::Exists { filter: eq(HANDLE) },
        ),
    ];
    for (case, plan) in in_pool {
        assert!(
            matches!(render(&TEXT_KEY, &plan).expect("a plan").runs, Runs::InPool),
            "{case}"
        );
    }
    let inline = [
        (
            "a key and more",
            Plan::Exists {
                filter: eq(ID).and(eq(TITLE)),
            },
        ),
        (
            "a unique and more",
            select(
                eq(OWNER).and(eq(HANDLE)).and(eq(TITLE)),
                by(TITLE, true),
                None,
            ),
        ),
        (
            "nothing at all",
            select(Filter::Any(Vec::new()), by(TITLE, true), None),
        ),
    ];
    for (case, plan) in inline {
        assert!(
            matches!(render(&TEXT_KEY, &plan).expect("a plan").runs, Runs::Inline),
            "{case}"
        );
    }
}

#[test]
fn nested_conditions_are_split() {
    let one = |field| Filter::eq_arg(field, 0);
    let nested = Filter::All(vec![
        Filter::Any(vec![Filter::All(vec![one(1), one(2)])]),
        one(3),
        Filter::TRUE,
    ]);
    assert_eq!(conjuncts(&nested), [&one(1), &one(2), &one(3)]);
}
