//! The snippets of the guide about relations.

use linchpin::prelude::*;

use super::send_request;

/// A shelf in a library.
#[entity(has_many(books: Book, key = shelf_id, max = 20), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Shelf {
    #[field(primary)]
    pub id: String,
    pub label: String,
}

/// A book, on a shelf or lent out.
#[entity(belongs_to(shelf: Shelf, key = shelf_id), sort = asc(title), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Book {
    #[field(primary)]
    pub id: String,
    pub title: String,
    pub shelf_id: Option<String>,
}

/// A reader.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Reader {
    #[field(primary)]
    pub id: String,
}

/// A loan. It is deleted with its book, but not with its reader.
#[entity(
    belongs_to(book: Book, key = book_id, on_delete = "cascade"),
    belongs_to(reader: Reader, key = reader_id, on_delete = "set_null"),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Loan {
    #[field(primary, default = uuid)]
    pub id: String,
    pub book_id: String,
    pub reader_id: Option<String>,
}

async fn beside(
    books: BookAdapter,
    shelves: ShelfAdapter,
    cx: &Cx,
) -> Result<(Vec<Option<Shelf>>, Vec<Page<Book>>)> {
    let shelf_of_each = books
        .related(cx, Book::SHELF, [Some("s1".to_owned()), None])
        .await?;
    let first_books = shelves
        .related_pages(cx, Shelf::BOOKS, ["s1", "s2"])
        .await?;
    Ok((shelf_of_each, first_books))
}

static LIBRARY: Package = package!(
    name = "library",
    entities = [
        entity(Shelf, []),
        entity(Book, []),
        entity(Reader, []),
        entity(Loan, [])
    ]
);

#[tokio::test(flavor = "multi_thread")]
async fn responses_include_related_records() {
    let config = Config::new()
        .port(0)
        .database("memory:")
        .signing_secret("only a test: 32 bytes or more of it");
    let app = App::new(config)
        .package(&LIBRARY)
        .start()
        .await
        .expect("the app starts");
    let (books, shelves) = (
        app.adapter::<Book>().expect("books"),
        app.adapter::<Shelf>().expect("shelves"),
    );
    let cx = Cx::system("seed");
    shelves
        .create(
            &cx,
            ShelfCreate {
                id: "s1".to_owned(),
                label: "Poems".to_owned(),
            },
        )
        .await
        .expect("a shelf");
    let book = BookCreate {
        id: "b1".to_owned(),
        title: "Odes".to_owned(),
        shelf_id: Some("s1".to_owned()),
    };
    books.create(&cx, book).await.expect("a book");
    let (status, body) = send_request(app.address(), "GET", "/books?include=shelf", "");
    assert!(
        status == 200 && body.contains(r#""shelf":{"id":"s1","label":"Poems"}"#),
        "{status} {body}"
    );
    let (status, body) = send_request(app.address(), "GET", "/shelves/s1?include=books", "");
    assert!(
        status == 200 && body.contains(r#""books":{"items":[{"id":"b1","#),
        "{status} {body}"
    );
    let loans = app.adapter::<Loan>().expect("loans");
    let loan = |book: &str| LoanCreate {
        book_id: book.to_owned(),
        reader_id: None,
    };
    loans
        .create(&cx, loan("b2"))
        .await
        .expect_err("there is no such book");
    loans.create(&cx, loan("b1")).await.expect("a loan");
    books
        .create(
            &cx,
            BookCreate {
                id: "b3".to_owned(),
                title: "Epics".to_owned(),
                shelf_id: None,
            },
        )
        .await
        .expect("a book");
    loans.create(&cx, loan("b3")).await.expect("a loan");
    books.delete(&cx, "b3", None).await.expect("deleted");
    assert_eq!(
        loans
            .list(&cx, LoanListQuery::new())
            .await
            .expect("loans")
            .items
            .len(),
        1
    );
    let (shelf_of_each, first_books) = beside(books, shelves, &cx).await.expect("related");
    assert!(shelf_of_each[0].is_some() && shelf_of_each[1].is_none());
    assert_eq!(
        first_books
            .iter()
            .map(|page| page.items.len())
            .collect::<Vec<_>>(),
        [1, 0]
    );
    app.stop().await.expect("it stops");
}
