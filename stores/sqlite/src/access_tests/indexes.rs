//! Tests that a read uses the declared index that is intended for it.

use super::*;

/// The reads for which a declared index or unique constraint is intended. They compare its leading
/// fields for equality and sort by the next fields, with or without a range on the first of these.
/// They start at the first record or after a position, which may contain nulls.
fn intended(entity: &EntityDesc, records: i64) -> Vec<Call> {
    let mut indexes: Vec<Vec<SortDesc>> = layout::indexes(entity)
        .into_iter()
        .filter(|i| !i.unique)
        .map(|i| i.keys)
        .collect();
    indexes.push(vec![SortDesc {
        field: ID,
        desc: false,
    }]);
    let mut calls = Vec::new();
    for keys in indexes {
        for (pinned, next) in keys.iter().enumerate() {
            let rest = &keys[pinned..];
            if rest.last().is_none_or(|last| last.field != ID) {
                continue;
            }
            // The list route sorts by one field and the key, in either direction; with several
            // fields, all keep or all reverse their directions.
            let orders: Vec<Vec<Order>> = [false, true]
                .into_iter()
                .map(|reversed| {
                    let descending = |k: &SortDesc| {
                        if rest.len() > 2 {
                            k.desc != reversed
                        } else {
                            reversed
                        }
                    };
                    rest.iter()
                        .map(|k| Order {
                            field: k.field,
                            desc: descending(k),
                        })
                        .collect()
                })
                .collect();
            for order in orders {
                let equal: Vec<_> = keys[..pinned]
                    .iter()
                    .map(|k| (k.field, Op::Eq, middle(entity, k.field, records)))
                    .collect();
                let ranges: [&[Op]; 4] = [&[], &[Op::Gte], &[Op::Lt], &[Op::Gt, Op::Lte]];
                for range in ranges {
                    let bounds = range
                        .iter()
                        .map(|op| (next.field, *op, other(entity, next.field, records)));
                    let all: Vec<_> = equal.iter().cloned().chain(bounds).collect();
                    // A range excludes nulls, so no page ends at a null.
                    let from = positions(entity, &order, records).into_iter().filter(|at| {
                        range.is_empty() || at.as_ref().is_none_or(|k| !k[0].is_null())
                    });
                    for position in from {
                        let mut args = Vec::new();
                        let filter = filter(&all.iter().collect::<Vec<_>>(), &mut args);
                        let after = position.map(|values| {
                            After::Keys(
                                values
                                    .into_iter()
                                    .map(|v| {
                                        (!v.is_null()).then(|| (args.push(v), args.len() - 1).1)
                                    })
                                    .collect(),
                            )
                        });
                        args.push(Value::Int(21));
                        let limit = Some(Source::Arg {
                            index: args.len() - 1,
                            nullable: false,
                        });
                        calls.push((
                            Plan::Select {
                                filter,
                                order: order.clone(),
                                after,
                                limit,
                            },
                            args,
                        ));
                    }
                }
            }
        }
    }
    // Lookups of one record by each unique constraint, by the primary key, and by any leading
    // fields of an index.
    let leading = entity
        .indexes
        .iter()
        .map(|i| i.fields.iter().map(|k| k.field).collect::<Vec<_>>());
    let whole = entity
        .uniques
        .iter()
        .map(|u| u.fields.to_vec())
        .chain([vec![ID]]);
    for fields in leading.chain(whole) {
        for n in 1..=fields.len() {
            let equal: Vec<_> = fields[..n]
                .iter()
                .map(|f| (*f, Op::Eq, middle(entity, *f, records)))
                .collect();
            let mut args = Vec::new();
            let filter = filter(&equal.iter().collect::<Vec<_>>(), &mut args);
            calls.push((
                Plan::Exists {
                    filter: filter.clone(),
                },
                args.clone(),
            ));
            if n == fields.len()
                && (fields == [ID] || entity.uniques.iter().any(|u| u.fields == fields))
            {
                calls.push((
                    Plan::Select {
                        filter,
                        order: Vec::new(),
                        after: None,
                        limit: None,
                    },
                    args,
                ));
            }
        }
    }
    calls
}

#[tokio::test(flavor = "multi_thread")]
async fn intended_reads_use_their_index() {
    for entity in [&TEXT_KEY, &NUMBER_KEY] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(&folder);
        filled(entity, Spread::Mixed, 10, &[&store]).await;
        let connection = connect(&folder);
        for (plan, args) in intended(entity, 10) {
            let native = render(entity, &plan).expect("a plan");
            let path = explain(&connection, &native);
            // A first page without conditions scans its index, or the table itself, up to its
            // limit; all other reads seek.
            let first = matches!(&plan, Plan::Select { filter, after: None, .. } if *filter == Filter::TRUE);
            let scans = path
                .lines()
                .any(|line| line.contains("SCAN") && line.contains(entity.storage_name));
            assert!(inline(&native), "{plan:#?}\n{args:?}");
            assert!(
                !path.contains("TEMP B-TREE") && scans == first,
                "{}\n{path}",
                native.sql
            );
        }
        store.close().await;
    }
}
