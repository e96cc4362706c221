//! Values in `set(..)` that satisfy the constraints of their fields.
use linchpin::prelude::*;

#[entity(unique(code), routes(auth = none))]
pub struct Lot {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 2..=8)]
    pub code: String,
    #[field(pattern = "[a-z]+")]
    pub name: String,
    #[field(one_of("new", "used"))]
    pub state: String,
    #[field(range = 1..=10)]
    pub pieces: i64,
    #[field(range = "2020-01-01T00:00:00Z"..)]
    pub since: Timestamp,
    #[field(each(length = 1..=5))]
    pub tags: Vec<String>,
    #[field(default = false)]
    pub closed: bool,
}

#[operation(kind = "transition", field = closed, from = false, to = true, set(code = "ab", name = "lot", pieces = 10))]
pub const CLOSE: Operation<Lot>;

#[operation(kind = "batch", action = "update", filter = (closed == false), set(state = "used", since = "2020-01-01T00:00:00Z"))]
pub const BREAK: Operation<Lot>;

#[operation(kind = "array_push", field = tags, value = "short")]
pub const TAG: Operation<Lot>;

// Values that no longer satisfy the constraints are allowed in `from` and in `array_pull`.
#[operation(kind = "transition", field = state, from = "ancient", to = "used")]
pub const AGE: Operation<Lot>;

#[operation(kind = "array_pull", field = tags, value = "toolong")]
pub const UNTAG: Operation<Lot>;
