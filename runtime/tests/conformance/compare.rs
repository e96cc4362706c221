//! Equality of two responses.

use serde_json::Value as Json;

/// The allowed differences between two responses.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Compares JSON by meaning: `jsonb` keeps neither white space nor the order of members.
    pub by_meaning: bool,
    /// Doubles may have a relative difference of 1e-9: the last digits of a sum depend on the order
    /// of records.
    pub sums: bool,
}

impl Tolerance {
    pub fn same(self, one: &str, other: &str) -> bool {
        if one == other {
            return true;
        }
        if !self.by_meaning && !self.sums {
            return false;
        }
        // Lines before the body are headers; all other lines are JSON.
        let (one, other): (Vec<&str>, Vec<&str>) = (one.lines().collect(), other.lines().collect());
        one.len() == other.len()
            && one
                .iter()
                .zip(&other)
                .all(|(one, other)| self.same_line(one, other))
    }

    fn same_line(self, one: &str, other: &str) -> bool {
        let read = |text: &str| serde_json::from_str::<Json>(text).ok();
        match (read(one), read(other)) {
            _ if one == other => true,
            (Some(a), Some(b)) => self.same_json(&a, &b),
            _ => false,
        }
    }

    fn same_json(self, one: &Json, other: &Json) -> bool {
        match (one, other) {
            (Json::Number(a), Json::Number(b)) if a != b => {
                self.sums && (a.is_f64() || b.is_f64()) && near(a.as_f64(), b.as_f64())
            }
            (Json::Array(a), Json::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.same_json(a, b))
            }
            (Json::Object(a), Json::Object(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .all(|(name, a)| b.get(name).is_some_and(|b| self.same_json(a, b)))
            }
            _ => one == other,
        }
    }
}

fn near(a: Option<f64>, b: Option<f64>) -> bool {
    let (Some(a), Some(b)) = (a, b) else {
        return false;
    };
    // Terms that cancel out leave a rounding error.
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) || (a - b).abs() <= 1e-12
}

#[test]
fn only_sums_of_doubles_may_differ() {
    let sums = Tolerance {
        by_meaning: false,
        sums: true,
    };
    let exact = Tolerance {
        by_meaning: false,
        sums: false,
    };
    let meaning = Tolerance {
        by_meaning: true,
        sums: false,
    };
    assert!(sums.same("a: 1\n\n{\"s\":0.30000000000000004}", "a: 1\n\n{\"s\":0.3}"));
    assert!(!exact.same("{\"s\":0.30000000000000004}", "{\"s\":0.3}"));
    assert!(!sums.same("{\"s\":0.31}", "{\"s\":0.3}"));
    assert!(!sums.same("{\"s\":1}", "{\"s\":2}"));
    assert!(!sums.same("a: 1\n\n{}", "a: 2\n\n{}"));
    assert!(meaning.same("{\"a\": 1,\"b\":2}", "{\"b\":2,\"a\":1}"));
    assert!(!exact.same("{\"a\": 1,\"b\":2}", "{\"b\":2,\"a\":1}"));
    assert!(!meaning.same("[1,2]", "[2,1]"));
}
