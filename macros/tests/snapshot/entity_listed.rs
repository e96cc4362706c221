/// A topic, in a list with numbered pages and a sort of several fields.
#[entity(index(board, desc(pinned), title), index(pinned, desc(title)), sort(desc(pinned), title), routes(auth = none, list(paging = "page")))]
pub struct Topic {
    #[field(primary, default = uuid)]
    pub id: String,
    pub board: String,
    pub pinned: bool,
    pub title: String,
}
