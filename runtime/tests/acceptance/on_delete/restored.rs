//! Restored records, and the records that they refer to.

use super::*;

/// A binder with soft delete.
#[entity(soft_delete(deleted_at), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Binder {
    #[field(primary)]
    pub id: String,
    #[field(read_only, default = 0)]
    pub sheets: i64,
    pub deleted_at: Option<Timestamp>,
}

#[operation(kind = "restore", route(roles = ["admin"]))]
pub const REOPEN: Operation<Binder>;

/// A sheet is deleted with its binder. The binder counts its sheets. A sheet may refer to a person;
/// `Person` has no soft delete.
#[entity(
    soft_delete(deleted_at),
    belongs_to(binder: Binder, key = binder_id, on_delete = "cascade"),
    belongs_to(person: Person, key = person_id, on_delete = "restrict"),
    counter(Binder.sheets, by = binder_id),
    routes(auth = none)
)]
#[derive(Clone, Debug)]
pub struct Sheet {
    #[field(primary)]
    pub id: String,
    pub binder_id: String,
    pub person_id: Option<String>,
    pub deleted_at: Option<Timestamp>,
}

#[operation(kind = "restore", route(roles = ["admin"]))]
pub const RESTORE: Operation<Sheet>;

static BINDERS: Package = package!(
    name = "binders",
    entities = [
        entity(Binder, [REOPEN]),
        entity(Sheet, [RESTORE]),
        entity(Person, [])
    ]
);

cases!(&crate::on_delete::restored::BINDERS =>
    a_child_is_restored_only_if_its_parent_is_live,
    a_restore_reports_every_missing_reference_and_rolls_back,
);

async fn restore(s: &Server, path: &str) -> crate::server::Reply {
    let token = s.token("ann", &["admin"]);
    s.raw("POST", path, &[("authorization", &token)], "").await
}

async fn sheets(s: &Server) -> Json {
    s.get("/binders/b").await.json()["sheets"].clone()
}

async fn a_child_is_restored_only_if_its_parent_is_live(s: &Server) {
    assert_eq!(s.post("/binders", json!({"id": "b"})).await.status, 201);
    for id in ["one", "two"] {
        assert_eq!(
            s.post("/sheets", json!({"id": id, "binderId": "b"}))
                .await
                .status,
            201
        );
    }
    assert_eq!(s.raw("DELETE", "/sheets/one", &[], "").await.status, 204);
    assert_eq!(restore(s, "/sheets/one/restore").await.status, 200);
    assert_eq!(sheets(s).await, 2);
    // One sheet is deleted alone, the other with its binder.
    assert_eq!(s.raw("DELETE", "/sheets/one", &[], "").await.status, 204);
    assert_eq!(s.raw("DELETE", "/binders/b", &[], "").await.status, 204);
    for path in ["/sheets/one/restore", "/sheets/two/restore"] {
        let refused = restore(s, path).await;
        assert_eq!(refused.code(), (409, "conflict"), "{path}");
        assert_eq!(
            refused.problems(),
            [("binderId".to_owned(), "reference".to_owned())],
            "{path}"
        );
    }
    assert_eq!(s.get("/sheets").await.json()["items"], json!([]));
    assert_eq!(restore(s, "/binders/b/reopen").await.status, 200);
    // Sheets that were deleted with the binder stay deleted until they are restored too.
    assert_eq!(
        (
            s.get("/sheets").await.json()["items"].clone(),
            sheets(s).await
        ),
        (json!([]), json!(0))
    );
    for (n, path) in ["/sheets/one/restore", "/sheets/two/restore"]
        .into_iter()
        .enumerate()
    {
        assert_eq!(restore(s, path).await.status, 200, "{path}");
        assert_eq!(sheets(s).await, n + 1);
    }
}

async fn a_restore_reports_every_missing_reference_and_rolls_back(s: &Server) {
    assert_eq!(s.post("/binders", json!({"id": "b"})).await.status, 201);
    assert_eq!(s.post("/people", json!({"id": "ann"})).await.status, 201);
    assert_eq!(
        s.post(
            "/sheets",
            json!({"id": "one", "binderId": "b", "personId": "ann"})
        )
        .await
        .status,
        201
    );
    // A live sheet prevents the deletion of its person; a deleted one does not.
    assert_eq!(s.raw("DELETE", "/people/ann", &[], "").await.status, 409);
    assert_eq!(s.raw("DELETE", "/binders/b", &[], "").await.status, 204);
    assert_eq!(s.raw("DELETE", "/people/ann", &[], "").await.status, 204);
    let mut problems = restore(s, "/sheets/one/restore").await.problems();
    problems.sort();
    assert_eq!(
        problems,
        [
            ("binderId".to_owned(), "reference".to_owned()),
            ("personId".to_owned(), "reference".to_owned())
        ]
    );
    // A refused restore rolls back the whole transaction of the application, even if the
    // application ignores the error.
    let app = s.running();
    let (sheets, people, cx) = (
        app.adapter::<Sheet>().unwrap(),
        app.adapter::<Person>().unwrap(),
        Cx::system("test").at(s.now()),
    );
    let outcome = cx
        .transaction(async |cx| {
            people
                .create(
                    cx,
                    PersonCreate {
                        id: "bob".to_owned(),
                        name: None,
                    },
                )
                .await?;
            assert_eq!(
                sheets
                    .restore(cx, "one")
                    .await
                    .map(drop)
                    .map_err(|e| e.code()),
                Err(Code::Conflict)
            );
            Ok(())
        })
        .await;
    assert_eq!(outcome.map_err(|e| e.code()), Err(Code::Conflict));
    assert_eq!(s.get("/people/bob").await.status, 404);
}
