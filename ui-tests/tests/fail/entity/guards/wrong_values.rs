use linchpin::prelude::*;

#[entity(routes(
    guards(),
    create(guards(require_mfa, require_mfa)),
    list(guards("require_mfa")),
    get(guards(require_step_up(300, 400), require_mfa())),
    update(guards(require_step_up(3.5))),
    delete(guards = "require_mfa"),
))]
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
