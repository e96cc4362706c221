/// Listed by number, in an order of several fields.
#[entity(index(board, desc(pinned), title), index(pinned, desc(title)), sort(desc(pinned), title), routes(auth = none, list(paging = "page")))]
pub struct Topic {
    #[field(primary, default = uuid)]
    pub id: String,
    pub board: String,
    pub pinned: bool,
    pub title: String,
}
