//! Claims of a signed token, without duplicate members: libraries differ in which duplicate they
//! use.

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The members of a token.
#[derive(Debug)]
pub(crate) struct Claims(pub(crate) Map<String, Value>);

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ClaimsVisitor)
    }
}

struct ClaimsVisitor;

impl<'de> Visitor<'de> for ClaimsVisitor {
    type Value = Claims;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object without duplicate members")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Claims, A::Error> {
        let mut out = Map::new();
        while let Some((name, value)) = members.next_entry::<String, Value>()? {
            if out.insert(name, value).is_some() {
                return Err(A::Error::custom("a member is duplicated"));
            }
        }
        Ok(Claims(out))
    }
}
