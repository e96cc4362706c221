use linchpin::prelude::*;

#[entity(tenant(tenant_id))]
pub struct Board {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: String,
    #[field(read_only, default = 0)]
    pub pins: i64,
}

#[entity(scope(owner_id = ctx(actor.id)))]
pub struct Document {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    #[field(read_only, default = 0)]
    pub comments: i64,
}

#[entity(visible(open || owner_id == ctx(actor.id)))]
pub struct Album {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: Option<String>,
    pub open: bool,
    #[field(read_only, default = 0)]
    pub pictures: i64,
}

#[entity(
    counter(Board.pins, by = board_id),
    counter(Document.comments, by = document_id),
    counter(Album.pictures, by = album_id),
)]
pub struct Pin {
    #[field(primary, default = uuid)]
    pub id: String,
    pub board_id: String,
    pub document_id: String,
    pub album_id: String,
}

fn main() {}
