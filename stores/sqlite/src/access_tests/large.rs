//! Tests with a large table. They measure no time, but count the steps of SQLite's virtual machine.

use super::*;

/// The number of records; at 25 records a page these are 4,000 pages.
const MANY: i64 = 100_000;
const PAGE: i64 = 25;

/// Fills a table in one transaction, because that is faster than through the store.
fn fill(folder: &tempfile::TempDir, entity: &'static EntityDesc, spread: Spread) {
    let mut connection = Connection::open(folder.path().join("test.db")).expect("the file");
    let insert = render(entity, &Plan::Insert).expect("a plan");
    let transaction = connection.transaction().expect("the lock");
    {
        let mut statement = transaction
            .prepare_cached(&insert.sql)
            .expect("a statement");
        for n in 0..MANY {
            bind::bind(
                &mut statement,
                &insert.binds,
                &record(entity, spread, n, MANY),
            )
            .expect("arguments")
            .expect("bound");
            statement.raw_execute().expect("stored");
        }
    }
    transaction.commit().expect("stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn page_4000_reads_as_much_as_page_1() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    create_tables(&store, &[&TEXT_KEY]).await.expect("created");
    fill(&folder, &TEXT_KEY, Spread::Rising);
    let connection = connect(&folder);
    for desc in [false, true] {
        let order = vec![
            Order {
                field: CREATED,
                desc,
            },
            Order { field: ID, desc },
        ];
        let page = |after: Option<After>| Plan::Select {
            filter: Filter::TRUE,
            order: order.clone(),
            after,
            limit: Some(Source::Arg {
                index: 2,
                nullable: false,
            }),
        };
        let first = render(&TEXT_KEY, &page(None)).expect("a plan");
        let deep =
            render(&TEXT_KEY, &page(Some(After::Keys(vec![Some(0), Some(1)])))).expect("a plan");
        // Lists read one record more than the page.
        let at = |n: i64| {
            vec![
                record(&TEXT_KEY, Spread::Rising, n, MANY)[CREATED].clone(),
                key(&TEXT_KEY, n),
                Value::Int(PAGE + 1),
            ]
        };
        // A page has 26 records of 9 columns. On later pages, each record is also compared with the
        // position.
        let (base, _) = cost(&connection, &first, &at(0));
        assert!(
            (26 * 9..26 * 15).contains(&base),
            "{base} steps on the first page"
        );
        for number in [2, 200, 2000, 3999] {
            // The last record of the previous page.
            let seen = (number - 1) * PAGE;
            let last = if desc { MANY - seen } else { seen - 1 };
            let (steps, sorts) = cost(&connection, &deep, &at(last));
            assert!(
                sorts == 0 && steps <= base + 27 * 8,
                "{steps} steps on page {number}, {base} on the first"
            );
        }
        // The last page has no additional record to read.
        let (steps, sorts) = cost(
            &connection,
            &deep,
            &at(if desc { PAGE } else { MANY - PAGE - 1 }),
        );
        assert!(
            sorts == 0 && steps <= base + 27 * 8,
            "{steps} steps on page 4000, {base} on the first"
        );
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_first_records_of_each_value_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    create_tables(&store, &[&TEXT_KEY]).await.expect("created");
    fill(&folder, &TEXT_KEY, Spread::Rising);
    let connection = connect(&folder);
    for desc in [false, true] {
        let order = vec![
            Order {
                field: CATEGORY,
                desc,
            },
            Order { field: ID, desc },
        ];
        let limit = Some(Source::Arg {
            index: 1,
            nullable: false,
        });
        let plan = Plan::Related {
            filter: Filter::TRUE,
            field: OWNER,
            values: 0,
            order,
            limit,
        };
        let native = render(&TEXT_KEY, &plan).expect("a plan");
        let path = explain(&connection, &native);
        assert!(
            matches!(native.runs, Runs::Keyed { .. })
                && !path.contains(&format!("SCAN {}", TEXT_KEY.storage_name)),
            "{path}"
        );
        // 20,000 records for each value; the read wants 4 of them.
        let args = [
            Value::Strings(vec!["o1".to_owned(), "o3".to_owned(), "none".to_owned()]),
            Value::Int(4),
        ];
        let (steps, _) = cost(&connection, &native, &args);
        assert!(steps < 1000, "{steps} steps\n{path}");
    }
    let by_key = Plan::Related {
        filter: Filter::TRUE,
        field: ID,
        values: 0,
        order: Vec::new(),
        limit: None,
    };
    let native = render(&TEXT_KEY, &by_key).expect("a plan");
    let path = explain(&connection, &native);
    assert!(
        matches!(native.runs, Runs::Keyed { .. })
            && !path.contains(&format!("SCAN {}", TEXT_KEY.storage_name)),
        "{path}"
    );
    store.close().await;
}
