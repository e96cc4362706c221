/// An article that a search provider finds.
#[entity(search(provider = "tantivy", fields(title = 2, body = 0.5), fallback), tenant(team))]
pub struct Article {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub body: Text,
    #[field(private)]
    pub team: String,
}
