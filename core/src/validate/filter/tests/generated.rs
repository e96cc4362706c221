//! Property tests: generated filters and generated JSON.

use proptest::prelude::*;

use super::*;

fn any_text() -> impl Strategy<Value = String> {
    const ODD: &[&str] = &[
        "now",
        "param:title",
        "param:",
        "ctx:actor.id",
        "ctx:",
        "",
        "%",
        "_",
        "\\",
        "$x",
        "$literal",
        "İßς",
        "😀",
        "'\"",
    ];
    prop_oneof![
        proptest::sample::select(ODD).prop_map(str::to_owned),
        any::<String>().prop_map(|t| t.replace('\0', ""))
    ]
}

/// A literal in the form of the field's Rust type.
fn any_literal(field: usize) -> BoxedStrategy<Value> {
    match FIELDS[field].kind {
        Kind::String => any_text().prop_map(Value::Text).boxed(),
        Kind::Integer => (-crate::validate::MAX_INTEGER..=crate::validate::MAX_INTEGER)
            .prop_map(Value::Int)
            .boxed(),
        Kind::Number => any::<f64>()
            .prop_filter("finite", |n| n.is_finite())
            .prop_map(|n| Value::Float(n + 0.0))
            .boxed(),
        Kind::Boolean => any::<bool>().prop_map(Value::Bool).boxed(),
        Kind::Date => (Timestamp::MIN.millis()..=Timestamp::MAX.millis())
            .prop_map(|ms| Value::Date(Timestamp::from_millis(ms)))
            .boxed(),
        Kind::Enum(desc) => proptest::sample::select(desc.variants)
            .prop_map(|v| Value::Text(v.to_owned()))
            .boxed(),
        _ => proptest::collection::vec(any_text(), 0..3)
            .prop_map(Value::Strings)
            .boxed(),
    }
}

fn any_source(field: usize) -> BoxedStrategy<Source> {
    let mut choices = vec![any_literal(field).prop_map(Source::Value).boxed()];
    if let Some(param) = PARAMS.iter().position(|p| p.field == field && !p.list) {
        choices.push(Just(Source::Param(param)).boxed());
    }
    match FIELDS[field].kind {
        Kind::Date => choices.push(Just(Source::Now).boxed()),
        Kind::String => {
            let paths = vec![
                CtxPath::ActorId,
                CtxPath::TenantId,
                CtxPath::ActorKind,
                CtxPath::SessionId,
                CtxPath::Claim("team"),
            ];
            choices.push(
                proptest::sample::select(paths)
                    .prop_map(Source::Ctx)
                    .boxed(),
            );
        }
        _ => {}
    }
    proptest::strategy::Union::new(choices).boxed()
}

fn any_condition() -> impl Strategy<Value = Filter> {
    let by_field = |field: usize| {
        let nullable =
            prop_oneof![4 => any_source(field), 1 => Just(Source::Value(Value::Null))].boxed();
        let equality = (
            proptest::sample::select(vec![Op::Eq, Op::Ne]),
            nullable.clone(),
        )
            .prop_map(move |(op, s)| one(field, op, s));
        let mut choices = vec![equality.boxed()];
        let kind = FIELDS[field].kind;
        if kind.is_scalar() {
            let list = proptest::collection::vec(nullable, 1..4)
                .prop_map(Operand::List)
                .boxed();
            let list_param = PARAMS.iter().position(|p| p.field == field && p.list);
            let operand = match list_param {
                Some(param) => prop_oneof![list, Just(Operand::One(Source::Param(param)))].boxed(),
                None => list,
            };
            let membership = (proptest::sample::select(vec![Op::In, Op::Nin]), operand)
                .prop_map(move |(op, o)| Filter::cond(field, op, o));
            choices.push(membership.boxed());
        }
        if matches!(
            kind,
            Kind::String | Kind::Integer | Kind::Number | Kind::Date
        ) {
            let ops = vec![Op::Gt, Op::Gte, Op::Lt, Op::Lte];
            choices.push(
                (proptest::sample::select(ops), any_source(field))
                    .prop_map(move |(op, s)| one(field, op, s))
                    .boxed(),
            );
        }
        if matches!(kind, Kind::String) {
            let some = any_text().prop_filter("not empty", |t| !t.is_empty());
            choices.push(
                some.prop_map(move |t| one(field, Op::Contains, text(&t)))
                    .boxed(),
            );
        }
        if matches!(kind, Kind::StringArray) {
            choices.push(
                any_text()
                    .prop_map(move |t| one(field, Op::Has, text(&t)))
                    .boxed(),
            );
        }
        proptest::strategy::Union::new(choices)
    };
    (0..8_usize).prop_flat_map(by_field)
}

fn any_filter() -> impl Strategy<Value = Filter> {
    any_condition().prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..4).prop_map(Filter::All),
            proptest::collection::vec(inner, 1..4).prop_map(Filter::Any),
        ]
    })
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any_text().prop_map(Json::from)
    ];
    const KEYS: &[&str] = &[
        "$and",
        "$or",
        "$in",
        "$eq",
        "$literal",
        "$contains",
        "title",
        "score",
        "tags",
        "dueAt",
        "nope",
    ];
    leaf.prop_recursive(5, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            proptest::collection::vec((proptest::sample::select(KEYS), inner), 0..4)
                .prop_map(|m| m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn filters_survive_a_json_round_trip(filter in any_filter()) {
        let json = filter.to_json(&POST, &PARAMS);
        let text = json.to_string();
        prop_assert_eq!(read(&json), Ok(filter), "{}", text);
    }

    #[test]
    fn any_json_is_read_without_panic_and_a_read_filter_can_be_written(json in any_json()) {
        if let Ok(filter) = read(&json) {
            prop_assert_eq!(read(&filter.to_json(&POST, &PARAMS)), Ok(filter));
        }
    }
}
