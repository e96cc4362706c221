/// A remark on a post, with an optional author and an optional parent remark.
#[entity(
    belongs_to(post: super::blog::Post, key = post_id, on_delete = "cascade"),
    belongs_to(author: User, key = author_id, on_delete = "set_null"),
    belongs_to(parent: Remark, key = parent_id),
    has_many(answers: Remark, key = parent_id, max = 5),
)]
pub struct Remark {
    #[field(primary, default = uuid)]
    pub id: String,
    pub post_id: String,
    pub author_id: Option<i64>,
    pub parent_id: Option<String>,
}
