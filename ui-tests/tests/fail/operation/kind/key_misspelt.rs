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

#[operation(kind = "incremnt", field = vews)]
pub const VIEW: Operation<Pot>;

#[operation(knd = "increment", field = views, bye = 2)]
pub const COUNT: Operation<Pot>;

#[operation(field = views)]
pub const NOTHING: Operation<Pot>;

// Code that calls them gets no further error.
pub async fn call(pots: PotAdapter, cx: Cx) -> Result<()> {
    pots.view(&cx, "a").await?;
    pots.count(&cx, "a").await?;
    Ok(())
}

fn main() {}
