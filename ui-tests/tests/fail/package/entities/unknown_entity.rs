use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Pot {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = "increment", field = views)]
pub const VIEW: Operation<Pot>;

pub static POTS: Package = package!(name = "pots", entities = [entity(Pots, [VIEW])]);

fn main() {}
