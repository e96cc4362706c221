// context: context values by name and by path, of every type that a condition can compare.
use linchpin::prelude::*;

mod plugin {
    linchpin::context! {
        pub region: String;
        pub level: i64;
        pub rate: f64;
        pub beta: bool;
        pub since: linchpin::Timestamp;
    }
}
use plugin::region;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Tier {
    Free,
    Paid,
}

linchpin::context! {
    /// The tier that the caller has paid for.
    tier: Tier;
}

#[entity(scope(region = ctx(region)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub region: String,
    #[field(default = ctx(plugin::level))]
    pub level: i64,
    #[field(default = ctx(tier))]
    pub tier: Tier,
    pub rate: f64,
    pub beta: Option<bool>,
    pub at: Option<Timestamp>,
    pub tags: Vec<String>,
}

#[operation(
    kind = "lookup",
    returns = "many",
    fields(beta = ctx(plugin::beta)),
    filter = (tier == ctx(tier) && rate < ctx(plugin::rate) && at >= ctx(plugin::since) && tags.has(ctx(region)))
)]
pub const MINE: Operation<Post>;

#[operation(kind = "array_push", field = tags, value = ctx(region))]
pub const TAG: Operation<Post>;

#[operation(kind = "transition", field = beta, from = false, to = true, set(rate = ctx(plugin::rate), at = ctx(plugin::since)))]
pub const OPEN: Operation<Post>;
