/// Posts, their comments, and the feed.
pub static BLOG: Package = package!(
    name = "blog",
    mount = "/api/v1",
    entities = [
        entity(Post, [PUBLISH, BY_SLUG, feed]),
        entity(crate::comments::Comment, []),
    ],
    middleware = [crate::stamped, "counted"],
    dependencies = ["auth"],
);
