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

#[operation(kind = "transition", field = stage, from = [Stage::Open, Stage::Opened], to = Stage::Finished)]
pub const CLOSE: Operation<Pot>;

#[operation(kind = "transition", field = stage, from = Stage::Open, to = Stag::Closed, set(views = Stage::Open))]
pub const SHUT: Operation<Pot>;

#[operation(kind = "lookup", fields(stage = Stage::Shut), filter = (stage.none_of([Stage::Half])), returns = "many")]
pub const ALL: Operation<Pot>;

fn main() {}
