use linchpin::prelude::*;

#[entity]
pub struct Pot {
    #[field(primary)]
    pub id: String,
}

#[entity]
pub struct Lid {
    #[field(primary)]
    pub id: String,
}

#[route(entity = Lid, method = "GET", path = "all.txt")]
async fn all() -> Result<String> {
    Ok(String::new())
}

pub static POTS: Package = package!(name = "pots", entities = [entity(Pot, [all]), entity(Lid, [])]);

fn main() {}
