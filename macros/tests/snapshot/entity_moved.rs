#[entity(
    routes(
        auth = none,
        create(method = "PUT", path = "new"),
        get(path = "{id}/card", description = "At length."),
        delete(method = "POST", path = "gone/{id}"),
    )
)]
pub struct Moved {
    #[field(primary, default = uuid)]
    pub id: String,
}
