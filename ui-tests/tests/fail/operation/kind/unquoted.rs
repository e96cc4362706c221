use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Stage { Open, Closed }

#[entity(routes(auth = none))]
pub struct Pot {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = Stage::Open)]
    pub stage: Stage,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = transition, field = stage, from = Stage::Open, to = Stage::Finished)]
pub const CLOSE: Operation<Pot>;

// Other mistakes are reported as well, by the macro or by rustc.
#[operation(kind = increment, field = vews, by = 0)]
pub const VIEW: Operation<Pot>;

fn main() {}
