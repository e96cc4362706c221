use linchpin::prelude::*;

#[entity]
pub struct Post<'a, T: Clone, const N: usize>
where
    T: Send,
{
    #[field(primary)]
    pub id: String,
    pub title: &'a str,
    pub parts: Vec<T>,
    pub scores: [i64; N],
}

fn main() {}
