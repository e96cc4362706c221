//! The snippets of `docs/guide.md` that are about several entities at once, compiled and used.

use linchpin::prelude::*;

/// A thread of a forum.
#[entity(sort = asc(title), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Topic {
    #[field(primary)]
    pub id: String,
    pub title: String,
    pub tags: Vec<String>,
    #[field(default = 0, read_only)]
    pub answers: i64,
}

/// An answer to it.
#[entity(sort = asc(id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Answer {
    #[field(primary)]
    pub id: String,
    #[field(filterable)]
    pub topic_id: String,
    #[field(filterable)]
    pub author_id: String,
}

/// Takes a tag away.
#[operation(kind = "array_pull", field = tags, value = param(tag))]
pub const UNTAG: Operation<Topic>;

/// Replaces all tags.
#[operation(kind = "array_set", field = tags, value = input(tags))]
pub const RETAG: Operation<Topic>;

/// Counts the answers of a topic, and keeps the number in it.
#[operation(
    kind = "computed_aggregate",
    source = Answer,
    source_filter = (topic_id == param(id)),
    compute = count(),
    target_match(id = param(id)),
    materialize_to = answers,
    atomic,
)]
pub const RECOUNT: Operation<Topic>;

/// The topics that somebody has answered.
#[operation(
    kind = "derive",
    source(Answer, where = (author_id == param(author_id)), traverse(Topic, on = topic_id)),
    merge = "union",
)]
pub const ANSWERED_BY: Operation<Topic>;

/// Topics and answers.
pub static FORUM: Package = package!(name = "forum", entities = [entity(Topic, [UNTAG, RETAG, RECOUNT, ANSWERED_BY]), entity(Answer, [])]);

/// Answers a topic. Both records are written, or neither is.
async fn answer(answers: &AnswerAdapter, topics: &TopicAdapter, cx: &Cx, answer: AnswerCreate) -> Result<Topic> {
    cx.transaction(async |cx| {
        let answer = answers.create(cx, answer).await?;
        topics.recount(cx, &answer.topic_id).await
    })
    .await
}

fn of(id: &str, topic: &str) -> AnswerCreate {
    AnswerCreate { id: id.to_owned(), topic_id: topic.to_owned(), author_id: "alice".to_owned() }
}

#[tokio::test]
async fn the_guide_does_what_it_says() -> Result<()> {
    let app = App::new(Config::new().port(0).database("memory:").signing_secret("only a test: 32 bytes or more of it"));
    let app = app.package(&FORUM).start().await?;
    let (topics, answers) = (app.adapter::<Topic>()?, app.adapter::<Answer>()?);
    let cx = Cx::actor(Actor::user("alice"));
    let tags = Some(vec!["a".to_owned(), "b".to_owned()]);
    topics.create(&cx, TopicCreate { id: "t".to_owned(), title: "T".to_owned(), tags }).await?;

    assert_eq!(topics.untag(&cx, "t", "a").await?.tags, ["b"]);
    assert_eq!(topics.retag(&cx, "t", vec!["c".to_owned()]).await?.tags, ["c"]);
    assert_eq!(answer(&answers, &topics, &cx, of("1", "t")).await?.answers, 1);
    assert_eq!(answer(&answers, &topics, &cx, of("2", "t")).await?.answers, 2);
    // The topic is missing, so the answer is not kept either.
    assert!(answer(&answers, &topics, &cx, of("3", "gone")).await.is_err());
    assert!(answers.get(&cx, "3").await?.is_none());
    let answered = topics.answered_by(&cx, "alice").await?;
    assert_eq!(answered.iter().map(|topic| topic.id.as_str()).collect::<Vec<_>>(), ["t"]);
    app.stop().await
}
