/// A post.
///
/// In two paragraphs.
#[entity(
    name = "BlogPost",
    namespace = "blog",
    path = "news/posts",
    storage_name = "posts_of_blog",
    rename_from = ["old_posts", "articles"],
    stores(sqlite, memory),
    index(author_id, desc(created_at)),
    index(status),
    unique(slug),
    unique(author_id, title, global),
    sort = desc(created_at),
    pagination(default = 20, max = MAX, unbounded_lookup = false),
    version(field = rev, required_on_write = false),
    check = dates,
    routes(
        auth = "userAuth",
        roles = ["writer"],
        timeout = "5s",
        list(auth = none),
        get(disabled),
        update(max_body = "2MiB"),
        delete(roles = ["admin"]),
    ),
)]
#[derive(Clone, Debug)]
pub(super) struct Post {
    #[field(primary, default = uuid)]
    pub id: Uuid,
    #[field(pattern = "[a-z-]+", length = ..=80, filterable)]
    pub slug: Slug,
    #[field(length = 1..=200, default = TITLE, sortable)]
    pub title: String,
    #[field(immutable)]
    pub author_id: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0, range = 0.., read_only)]
    pub views: i64,
    #[field(default = -0.5, range = -1..=1)]
    pub score: f64,
    #[field(items = ..=10, unique_items, each(length = 1..=64, pattern = "[a-z]+"), default = ["new"])]
    pub tags: Vec<String>,
    #[field(items = ..=50)]
    pub revisions: Vec<Revision>,
    pub meta: Option<Json<Extra>>,
    #[field(one_of("good", "bad"), default = "good", rename_from = "feeling", transform = moods::of_feeling, column = "mood_text")]
    pub mood: Option<String>,
    #[field(one_of(1, 2, 3))]
    pub stars: Option<i64>,
    #[field(private)]
    pub secret: Option<String>,
    #[field(write_only, format = "email")]
    pub contact: Option<String>,
    #[field(range = "2020-01-01T00:00:00Z"..)]
    pub published_at: Option<Timestamp>,
    pub r#type: Option<String>,
    #[field(default = now, client_set)]
    pub created_at: Timestamp,
}
