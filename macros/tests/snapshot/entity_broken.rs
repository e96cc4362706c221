#[entity(indx(title), unique(slugg))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: i64,
    #[field(length = 9..=3, default = 7)]
    pub title: String,
    pub slug: String,
}
