use linchpin::prelude::*;

async fn audit(call: RouteCall<'_>) -> Result<()> {
    let _ = call;
    Ok(())
}

#[entity(routes(get(middleware = [audit])))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary)]
    pub id: String,
    pub author_id: Option<String>,
    #[field(private, default = "")]
    pub editor_id: String,
    pub score: i64,
    pub meta: Option<serde_json::Value>,
}

fn main() {}
