//! Values at the limits of stores and of SQL, and a small set of values, so that records collide.

use linchpin::entity::{FieldDesc, Kind};
use serde_json::{Map, Value as Json, json};

/// A random number generator (splitmix64). It is part of the tests, so that a seed gives the same
/// sequence on every machine and with every version of other crates.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

const FEW: &[&str] = &["a", "b", "A", "é", "%", "ß"];

const NASTY: &[&str] = &[
    "",
    "_",
    "\\",
    "'",
    "\"",
    "$x",
    ".",
    "*",
    "a%b",
    "a_b",
    "İ",
    "ı",
    "ẞ",
    "ss",
    "ς",
    "Σ",
    "σ",
    "e\u{301}",
    "😀",
    "\u{ffff}",
    "10",
    "9",
    "null",
    "a,b",
    "\\,",
    "\u{1}",
    "\u{7f}",
    " a ",
    "日本",
    "now",
    "ctx:actor.id",
    "param:x",
    "\u{202e}",
    "-0",
    "true",
    "a/b",
    "a&b=c",
    "+",
];

const DATES: &[&str] = &[
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999Z",
    "1969-12-31T23:59:59.999Z",
    "1970-01-01T00:00:00Z",
    // The boundaries of a week, a month and a year.
    "2026-03-29T23:59:59.999Z",
    "2026-03-30T00:00:00Z",
    "2024-02-29T13:14:15.5+02:00",
    "2025-12-31T23:59:59.999Z",
    // Near the time at which sequences run.
    "2026-03-04T05:06:07.008Z",
    "2026-03-04T05:06:12Z",
    "2026-03-04T05:07:00Z",
];

/// Any text, and rarely one that cannot be stored.
pub fn text(r: &mut Random) -> String {
    match r.below(100) {
        0 => "nul\u{0}".to_owned(),
        1..=64 => (*r.one(FEW)).to_owned(),
        _ => (*r.one(NASTY)).to_owned(),
    }
}

fn integer(r: &mut Random) -> Json {
    match r.below(40) {
        0 => json!(9_007_199_254_740_991_i64),
        1 => json!(-9_007_199_254_740_991_i64),
        2 => json!(9_007_199_254_740_992_i64),
        3 => json!(1.0),
        4 => json!(998),
        5 => json!(9_007_199_254_740_990_i64),
        _ => json!(*r.one(&[0, 1, 2, 3, 5, -1, -4])),
    }
}

fn number(r: &mut Random, wide: bool) -> Json {
    const NEAR: &[f64] = &[0.0, 0.5, -0.5, 0.1 + 0.2, 0.3, 2.0, -0.0, 1.25];
    const FAR: &[f64] = &[
        1e300,
        -1e300,
        f64::MAX,
        f64::MIN,
        5e-324,
        1e17,
        0.1,
        -0.0,
        123_456_789.123_456_79,
    ];
    json!(*r.one(if wide { FAR } else { NEAR }))
}

fn random_json(r: &mut Random) -> Json {
    match r.below(8) {
        0 => json!({}),
        1 => json!([]),
        2 => json!("x\u{2028}"),
        3 => json!({"b": null, "a": [1, 2.5, "é"], "c": {"$x": true}}),
        4 => json!(1e300),
        5 => json!(9_007_199_254_740_993_i64),
        6 => json!(null),
        _ => json!([[], {}, "", "\\", 0.1 + 0.2]),
    }
}

/// A value for a field: nearly always of its type, mostly within its rules.
pub fn value(r: &mut Random, field: &FieldDesc) -> Json {
    let null = if field.optional { 15 } else { 1 };
    if r.percent(null) {
        Json::Null
    } else {
        some_value(r, field)
    }
}

/// A value that is not null.
pub fn some_value(r: &mut Random, field: &FieldDesc) -> Json {
    if r.below(120) == 0 {
        return json!({"not": ["this"]});
    }
    match field.kind {
        Kind::String if field.rules.format == Some("email") => {
            json!(*r.one(&[
                "a@b.example",
                "ä@b.example",
                "a@b",
                "",
                "x y@b.example",
                "A@B.example"
            ]))
        }
        Kind::String if !field.rules.one_of.is_empty() && r.percent(90) => {
            json!(*r.one(field.rules.one_of))
        }
        Kind::String => json!(text(r)),
        Kind::Integer => integer(r),
        Kind::Number => number(r, field.wire == "wide"),
        Kind::Boolean => json!(r.percent(50)),
        Kind::Date if r.below(40) == 0 => json!(*r.one(&[
            "2026-01-01",
            "2026-13-01T00:00:00Z",
            "2016-12-31T23:59:60Z",
            "now"
        ])),
        Kind::Date => json!(*r.one(DATES)),
        Kind::Enum(_) if r.below(50) == 0 => json!("zzz"),
        Kind::Enum(desc) => json!(*r.one(desc.variants)),
        Kind::StringArray => {
            let count = r.below(4);
            (0..count).map(|_| text(r)).collect()
        }
        Kind::Items(fields) => {
            let count = r.below(4);
            (0..count).map(|_| item(r, fields, false)).collect()
        }
        Kind::Json => random_json(r),
    }
}

/// An item, or a part of one.
pub fn item(r: &mut Random, fields: &[FieldDesc], part: bool) -> Json {
    let mut members = Map::new();
    for field in fields {
        let present = match (part, field.creatable()) {
            (_, false) => 1,
            (true, _) => 40,
            (false, _) if field.optional || field.default.is_some() => 50,
            (false, _) => 98,
        };
        if r.percent(present) {
            // Few different numbers, because the number identifies an item.
            let value = if field.wire == "number" {
                json!(r.below(4))
            } else {
                value(r, field)
            };
            members.insert(field.wire.to_owned(), value);
        }
    }
    Json::Object(members)
}
