use linchpin::prelude::*;

#[entity(routes(
    permission(requires = "ban", rank = user_id),
    list(permission(requires = "ban", rank = user_id)),
    create(permission(requires = "ban", rank = usr_id)),
    update(permission(requires = "ban", rank = strikes)),
    delete(permission(requires = "ban", rank = secret)),
))]
pub struct Ban {
    #[field(primary, default = uuid)]
    pub id: String,
    pub user_id: String,
    pub strikes: i64,
    #[field(private)]
    pub secret: Option<String>,
}

fn main() {}
