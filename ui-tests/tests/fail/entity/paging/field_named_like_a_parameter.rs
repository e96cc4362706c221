use linchpin::prelude::*;

#[entity(index(page), index(page_size), routes(list(paging = "page")))]
pub struct Sheet {
    #[field(primary, default = uuid)]
    pub id: String,
    pub page: i64,
    pub page_size: i64,
}

fn main() {}
