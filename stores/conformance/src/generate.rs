//! Random statements over the fixture.

use proptest::prelude::*;

use super::{FIELDS, META, STATUS_FIELD, Step, TAGS};
use linchpin_core::entity::{Flags, Kind};
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::{Assign, AssignValue, Compute, Function, Group, Order, Pick, Truncate};
use linchpin_core::validate::{MAX_INTEGER, list_value};
use linchpin_core::{Timestamp, Value};

fn any_text() -> impl Strategy<Value = String> {
    const POOL: &[&str] = &[
        "", "a", "A", "b", "aa", "%", "_", "\\", "'", "\"", "$x", ".", "*", "a%b", "a_b", "İ", "ı",
        "ß", "ẞ", "ss", "ς", "Σ", "σ", "é", "e\u{301}", "😀", "\u{ffff}", "10", "9", "null", "a,b",
        "\u{1}", "\u{7f}", " a ", "日本",
    ];
    prop_oneof![8 => proptest::sample::select(POOL).prop_map(str::to_owned), 1 => "[a-cA-C%_éÉß😀]{0,4}"]
}

/// A random value for a field, never null.
fn some_value(field: usize) -> BoxedStrategy<Value> {
    match FIELDS[field].kind {
        // Few keys, so that statements meet the same records.
        Kind::String if field == 0 => proptest::sample::select(vec![
            "k1", "k2", "K1", "é", "k%", "😀", "\u{ffff}", "k3", "k4",
        ])
        .prop_map(|t| Value::Text(t.to_owned()))
        .boxed(),
        Kind::String => any_text().prop_map(Value::Text).boxed(),
        Kind::Integer => {
            proptest::sample::select(vec![0, 1, -1, 2, 9, 10, MAX_INTEGER, -MAX_INTEGER])
                .prop_map(Value::Int)
                .boxed()
        }
        Kind::Number => {
            // Sums of a few of these numbers do not cancel out; otherwise the result would depend
            // on the order in which a store adds them.
            proptest::sample::select(vec![
                0.0,
                0.5,
                -0.7,
                0.1 + 0.2,
                0.3,
                1e300,
                -1e200,
                5e-324,
                2.0,
                1e17,
            ])
            .prop_map(Value::Float)
            .boxed()
        }
        Kind::Boolean => any::<bool>().prop_map(Value::Bool).boxed(),
        Kind::Date => proptest::sample::select(vec![
            Timestamp::MIN.millis(),
            -1,
            0,
            1,
            1_767_323_045_678,
            Timestamp::MAX.millis(),
        ])
        .prop_map(|ms| Value::Date(Timestamp::from_millis(ms)))
        .boxed(),
        Kind::Enum(desc) => proptest::sample::select(desc.variants)
            .prop_map(|v| Value::Text(v.to_owned()))
            .boxed(),
        Kind::StringArray => proptest::collection::vec(any_text(), 0..4)
            .prop_map(Value::Strings)
            .boxed(),
        Kind::Json | Kind::Items(_) => {
            const POOL: &[&str] = &[
                "{}",
                "[]",
                "null",
                "\"x\"",
                "{\"a\":[1,2.5,\"é\"],\"b\":null}",
                "9007199254740993",
                "true",
            ];
            proptest::sample::select(POOL)
                .prop_map(|t| Value::Json(t.to_owned()))
                .boxed()
        }
    }
}

fn any_value(field: usize) -> BoxedStrategy<Value> {
    if FIELDS[field].optional {
        prop_oneof![1 => Just(Value::Null), 3 => some_value(field)].boxed()
    } else {
        some_value(field)
    }
}

/// A condition with its operand; values become arguments later.
fn any_condition() -> impl Strategy<Value = Filter> {
    fn one(field: usize, op: Op, value: Value) -> Filter {
        Filter::cond(field, op, Operand::One(Source::Value(value)))
    }
    let by_field = |field: usize| {
        let kind = FIELDS[field].kind;
        let nullable = prop_oneof![1 => Just(Value::Null), 4 => some_value(field)].boxed();
        let equality = (
            proptest::sample::select(vec![Op::Eq, Op::Ne]),
            nullable.clone(),
        )
            .prop_map(move |(op, v)| one(field, op, v));
        let mut choices = vec![equality.boxed()];
        if kind.is_scalar() {
            let membership = proptest::sample::select(vec![Op::In, Op::Nin]);
            let list = proptest::collection::vec(nullable, 1..4);
            let listed = (membership.clone(), list).prop_map(move |(op, list)| {
                Filter::cond(
                    field,
                    op,
                    Operand::List(list.into_iter().map(Source::Value).collect()),
                )
            });
            choices.push(listed.boxed());
            // The same operators with the whole list as one value. This list contains no null.
            let list = proptest::collection::vec(some_value(field), 0..4);
            choices.push(
                (membership, list)
                    .prop_map(move |(op, list)| one(field, op, list_value(&list)))
                    .boxed(),
            );
        }
        if matches!(
            kind,
            Kind::String | Kind::Integer | Kind::Number | Kind::Date
        ) {
            let ops = proptest::sample::select(vec![Op::Gt, Op::Gte, Op::Lt, Op::Lte]);
            choices.push(
                (ops, any_value(field))
                    .prop_map(move |(op, v)| one(field, op, v))
                    .boxed(),
            );
        }
        // Only filterable fields can have a `$contains`.
        if matches!(kind, Kind::String) && FIELDS[field].flags.has(Flags::FILTERABLE) {
            let some = any_text().prop_filter("not empty", |t| !t.is_empty());
            choices.push(
                some.prop_map(move |t| one(field, Op::Contains, Value::Text(t)))
                    .boxed(),
            );
        }
        if matches!(kind, Kind::StringArray) {
            choices.push(
                any_text()
                    .prop_map(move |t| one(field, Op::Has, Value::Text(t)))
                    .boxed(),
            );
        }
        proptest::strategy::Union::new(choices)
    };
    (0..META).prop_flat_map(by_field)
}

/// A filter with its arguments. `shape` decides which values become arguments; nulls may stay in
/// the plan.
fn any_filter() -> impl Strategy<Value = (Filter, Vec<Value>)> {
    let tree = any_condition().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Filter::All),
            proptest::collection::vec(inner, 1..4).prop_map(Filter::Any),
        ]
    });
    (
        prop_oneof![1 => Just(Filter::TRUE), 6 => tree],
        any::<u64>(),
    )
        .prop_map(|(filter, mut shape)| {
            let mut args = Vec::new();
            let filter = filter.map_sources(&mut |_, _, source| {
                let Source::Value(value) = source else {
                    return source;
                };
                shape = shape.rotate_left(1);
                // A null stays in the plan or becomes an argument that is declared nullable. Every
                // other value becomes an argument, which may be declared nullable too.
                let nullable = value.is_null() || shape & 2 == 0;
                if value.is_null() && shape & 1 == 0 {
                    return Source::Value(value);
                }
                args.push(value);
                Source::Arg {
                    index: args.len() - 1,
                    nullable,
                }
            });
            (filter, args)
        })
}

/// One to three fields, each with its own direction; the key comes last, in the direction of the
/// field before it.
fn any_order() -> impl Strategy<Value = Vec<Order>> {
    let fields = prop_oneof![
        2 => (0..TAGS).prop_map(|field| vec![field]),
        1 => proptest::sample::subsequence((1..TAGS).collect::<Vec<_>>(), 2..4).prop_shuffle(),
    ];
    (fields, any::<[bool; 3]>()).prop_map(|(fields, desc)| {
        let mut order: Vec<Order> = fields
            .into_iter()
            .zip(desc)
            .map(|(field, desc)| Order { field, desc })
            .collect();
        if let Some(last) = order.last().filter(|o| o.field != 0).copied() {
            order.push(Order { field: 0, ..last });
        }
        order
    })
}

fn any_pick() -> impl Strategy<Value = Option<Pick>> {
    let pick = (any_order(), 1_u32..3, any::<bool>()).prop_map(|(mut order, limit, waits)| {
        if order.iter().all(|o| o.field != 0) {
            order.push(Order {
                field: 0,
                desc: false,
            });
        }
        Pick {
            order,
            limit,
            waits,
        }
    });
    proptest::option::weighted(0.5, pick)
}

/// An upsert that can conflict with at most one unique, because stores check uniques in different
/// orders.
fn any_upsert() -> impl Strategy<Value = Step> {
    let keys = proptest::sample::select(vec![vec![0_usize], vec![1], vec![3, STATUS_FIELD]]);
    let record = (0..FIELDS.len()).map(any_value).collect::<Vec<_>>();
    let filter = prop_oneof![2 => Just((Filter::TRUE, Vec::new())), 1 => any_filter()];
    let parts = (
        keys,
        record,
        filter,
        proptest::sample::subsequence(vec![2_usize, 4, 5, 6, TAGS, META], 0..4),
        any::<u64>(),
        any_text(),
    );
    parts.prop_map(|(keys, mut values, (filter, further), set, suffix, slug)| {
        let by_key = keys == [0];
        for field in [1, 3] {
            values[field] = Value::Null;
        }
        if !by_key {
            values[0] = Value::Text(format!("fresh-{suffix}"));
        }
        if keys == [1] {
            values[1] = Value::Text(slug);
        } else if !by_key {
            values[3] = Value::Int(1);
        }
        let assign = |field| Assign {
            field,
            value: AssignValue::Set(Source::Arg {
                index: field,
                nullable: true,
            }),
        };
        let filter = filter.map_sources(&mut |_, _, source| match source {
            Source::Arg { index, nullable } => Source::Arg {
                index: index + FIELDS.len(),
                nullable,
            },
            source => source,
        });
        values.extend(further);
        Step::Upsert(keys, filter, set.into_iter().map(assign).collect(), values)
    })
}

/// Aggregates over records, some of them over a part of the records only.
fn any_aggregate() -> impl Strategy<Value = Step> {
    let periods = vec![
        Truncate::Year,
        Truncate::Month,
        Truncate::Week,
        Truncate::Day,
        Truncate::Hour,
    ];
    let group = prop_oneof![
        1 => proptest::sample::select(vec![2_usize, 3, 5, 6, STATUS_FIELD]).prop_map(|field| Group { field, truncate: None }),
        2 => proptest::sample::select(periods).prop_map(|period| Group { field: 6, truncate: Some(period) }),
    ];
    let function = prop_oneof![
        1 => Just((Function::Count, 0_usize)),
        2 => (proptest::sample::select(vec![Function::Sum, Function::Avg]), proptest::sample::select(vec![3_usize, 4])),
        2 => (proptest::sample::select(vec![Function::Min, Function::Max]), proptest::sample::select(vec![1_usize, 2, 3, 4, 6])),
    ];
    let only = prop_oneof![2 => Just((Filter::TRUE, Vec::new())), 1 => any_filter()];
    let compute = proptest::collection::vec((function, only), 1..4);
    (
        any_filter(),
        proptest::collection::vec(group, 0..3),
        compute,
    )
        .prop_map(|((filter, mut args), groups, compute)| {
            let compute = compute
                .into_iter()
                .map(|((function, field), (only, further))| {
                    let base = args.len();
                    args.extend(further);
                    let filter = only.map_sources(&mut |_, _, source| match source {
                        Source::Arg { index, nullable } => Source::Arg {
                            index: index + base,
                            nullable,
                        },
                        source => source,
                    });
                    Compute {
                        function,
                        field,
                        filter,
                    }
                });
            let compute = compute.collect();
            Step::Aggregate(filter, groups, compute, args)
        })
}

/// A few values of one field; some of them exist in records, some are duplicates.
fn any_related() -> impl Strategy<Value = Step> {
    let by_key = proptest::collection::vec(some_value(0), 1..6)
        .prop_map(|values| (0, values, Vec::new(), None))
        .boxed();
    let some = |field| {
        (
            proptest::collection::vec(some_value(field), 1..6),
            any_order(),
            1_i64..4,
        )
    };
    let each = move |field| {
        some(field)
            .prop_map(move |(values, order, limit)| (field, values, order, Some(limit)))
            .boxed()
    };
    let parts = prop_oneof![1 => by_key, 1 => each(1), 2 => each(2), 2 => each(3)];
    (any_filter(), parts).prop_map(|((filter, args), (field, values, order, limit))| {
        Step::Related(filter, args, field, values, order, limit)
    })
}

pub(super) fn any_step() -> impl Strategy<Value = Step> {
    let record = (0..FIELDS.len()).map(any_value).collect::<Vec<_>>();
    let insert = record.prop_map(Step::Insert).boxed();
    // One record: any field, set to a value or to a sum.
    let one_record = (
        some_value(0),
        proptest::sample::select((1..FIELDS.len()).collect::<Vec<_>>()),
        any::<bool>(),
    )
        .prop_flat_map(|(id, field, add)| {
            let value = match (FIELDS[field].kind, add) {
                (Kind::Integer, true) => (-3_i64..4).prop_map(Value::Int).boxed(),
                (Kind::Number, true) => proptest::sample::select(vec![0.5, -1.25])
                    .prop_map(Value::Float)
                    .boxed(),
                _ => any_value(field),
            };
            let numeric = matches!(FIELDS[field].kind, Kind::Integer | Kind::Number);
            (Just((id, field, add && numeric)), value)
        })
        .prop_map(|((id, field, add), value)| {
            let source = Source::Arg {
                index: 1,
                nullable: value.is_null() || !add,
            };
            let value_of = if add {
                AssignValue::Add(source)
            } else {
                AssignValue::Set(source)
            };
            // As in operations, no sum exceeds the range of integers.
            let near =
                |op, bound| Filter::cond(field, op, Operand::One(Source::Value(Value::Int(bound))));
            let within = near(Op::Gte, 4 - MAX_INTEGER).and(near(Op::Lte, MAX_INTEGER - 4));
            let null = Filter::cond(field, Op::Eq, Operand::One(Source::Value(Value::Null)));
            let guarded = add && matches!(FIELDS[field].kind, Kind::Integer);
            let filter = if guarded {
                Filter::eq_arg(0, 0).and(null.or(within))
            } else {
                Filter::eq_arg(0, 0)
            };
            Step::Update(
                filter,
                vec![Assign {
                    field,
                    value: value_of,
                }],
                None,
                vec![id, value],
            )
        })
        .boxed();
    // Many records: fields outside of uniques, because stores check uniques at different moments of
    // a statement.
    let many = (
        any_filter(),
        proptest::sample::select(vec![2_usize, 4, 5, 6, TAGS, META]),
        any_pick(),
    )
        .prop_flat_map(|(filter, field, pick)| {
            (Just(filter), Just(field), any_value(field), Just(pick))
        })
        .prop_map(|((filter, mut args), field, value, pick)| {
            args.push(value);
            let value = AssignValue::Set(Source::Arg {
                index: args.len() - 1,
                nullable: true,
            });
            Step::Update(filter, vec![Assign { field, value }], pick, args)
        })
        .boxed();
    // A change of a list of strings, possibly with a condition on its length.
    let listed = (
        some_value(0),
        any_text(),
        0_u8..3,
        proptest::option::of((0_i64..4, prop_oneof![Just(Op::Shorter), Just(Op::Longer)])),
    )
        .prop_map(|(id, element, kind, bound)| {
            let source = Source::Arg {
                index: 1,
                nullable: false,
            };
            let value = match kind {
                0 => AssignValue::Pull(source),
                kind => AssignValue::Push {
                    value: source,
                    dedupe: kind == 1,
                },
            };
            let within = bound
                .map(|(n, op)| Filter::cond(TAGS, op, Operand::One(Source::Value(Value::Int(n)))));
            let filter = Filter::eq_arg(0, 0).and(within.unwrap_or(Filter::TRUE));
            Step::Update(
                filter,
                vec![Assign { field: TAGS, value }],
                None,
                vec![id, Value::Text(element)],
            )
        })
        .boxed();
    prop_oneof![
        6 => insert,
        3 => one_record,
        2 => many,
        3 => listed,
        3 => any_upsert(),
        1 => (any_filter(), any_pick()).prop_map(|((filter, args), pick)| Step::Delete(filter, pick, args)),
        3 => any_aggregate(),
        3 => any_related(),
        1 => any_filter().prop_map(|(filter, args)| Step::Hold(filter, args)),
        1 => (any_filter(), any_pick()).prop_map(|((filter, args), pick)| Step::Lock(filter, pick, args)),
        2 => any_filter().prop_map(|(filter, args)| Step::Exists(filter, args)),
        6 => (any_filter(), any_order(), 1_i64..4).prop_map(|((filter, args), order, size)| Step::Walk(filter, args, order, size)),
    ]
}
