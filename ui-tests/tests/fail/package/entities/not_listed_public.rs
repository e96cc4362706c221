#![deny(dead_code)]

use linchpin::prelude::*;

/// A package lists it.
pub mod listed {
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

    // No package lists it, although code calls it.
    #[operation(kind = "increment", field = views, by = -1)]
    pub const FORGET: Operation<Pot>;

    // It has no route.
    #[operation(kind = "increment", field = views, by = 2, route(disabled))]
    pub const TWICE: Operation<Pot>;

    // Another crate lists it.
    #[operation(kind = "increment", field = views, by = 3)]
    #[allow(dead_code)]
    pub const THRICE: Operation<Pot>;
}

use listed::VIEW;

pub static POTS: Package = package!(name = "pots", entities = [entity(listed::Pot, [VIEW])]);

pub async fn forget(pots: listed::PotAdapter, cx: &Cx) -> Result<()> {
    pots.forget(cx, "x").await?;
    pots.twice(cx, "x").await?;
    pots.thrice(cx, "x").await?;
    Ok(())
}

fn main() {
    let _ = (&POTS, forget);
}
