//! The snippets of the guide about functions that read request bodies: JSON, forms and files.

use linchpin::axum;
use linchpin::axum::body::Body;
use linchpin::axum::extract::{Form, Multipart, Path};
use linchpin::axum::http::Request;
use linchpin::prelude::*;
use linchpin::testing::{Answer, Client};
use serde_json::{Value as Json, json};

/// A picture.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Picture {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 1..=80)]
    pub title: String,
    #[field(default = 0, read_only)]
    pub bytes: i64,
}

/// A rating of a picture by a visitor.
#[derive(Embedded, Clone, Debug)]
pub struct Opinion {
    /// From 1 to 5.
    #[field(range = 1..=5)]
    pub stars: i64,
    pub remark: Option<String>,
}

/// The result of a rating.
#[derive(Embedded, Clone, Debug)]
pub struct Rating {
    pub title: String,
    pub stars: i64,
}

/// The fields of an HTML form.
#[derive(serde::Deserialize)]
pub struct Entry {
    title: String,
}

/// Rates a picture.
#[route(entity = Picture, method = "POST", path = "{id}/rate", auth = none)]
async fn rate(
    pictures: PictureAdapter,
    cx: Cx,
    Path(id): Path<String>,
    axum::Json(opinion): axum::Json<Opinion>,
) -> Result<axum::Json<Rating>> {
    let picture = pictures.get(&cx, id).await?.ok_or_else(Error::not_found)?;
    Ok(axum::Json(Rating {
        title: picture.title,
        stars: opinion.stars,
    }))
}

/// Enters a picture by a form.
#[route(entity = Picture, method = "POST", path = "enter", auth = none)]
async fn enter(pictures: PictureAdapter, cx: Cx, Form(entry): Form<Entry>) -> Result<String> {
    Ok(pictures
        .create(&cx, PictureCreate { title: entry.title })
        .await?
        .id)
}

/// Receives files and returns the size of each in bytes.
#[route(entity = Picture, method = "POST", path = "upload", auth = none, max_body = "8KiB")]
async fn upload(mut form: Multipart) -> Result<axum::Json<Vec<Rating>>> {
    let mut sizes = Vec::new();
    while let Some(part) = form.next_field().await? {
        let title = part.file_name().unwrap_or_default().to_owned();
        sizes.push(Rating {
            title,
            stars: part.bytes().await?.len() as i64,
        });
    }
    Ok(axum::Json(sizes))
}

static GALLERY: Package = package!(
    name = "gallery",
    entities = [entity(Picture, [rate, enter, upload])]
);

async fn send(client: &Client, path: &str, kind: &str, body: impl Into<Body>) -> Result<Answer> {
    let request = Request::post(path)
        .header("content-type", kind)
        .body(body.into());
    client.call(request.map_err(Error::internal)?).await
}

#[tokio::test]
async fn forms_and_files_are_read() -> Result<()> {
    let config = Config::new()
        .port(0)
        .database("memory:")
        .signing_secret("only a test: 32 bytes or more of it");
    let app = App::new(config).package(&GALLERY).start().await?;
    let client = Client::new(&app);
    const FORM: &str = "application/x-www-form-urlencoded";
    let id = send(&client, "/pictures/enter", FORM, "title=Blue%20horses")
        .await?
        .text()?
        .to_owned();
    let rated = client
        .post(&format!("/pictures/{id}/rate"), json!({ "stars": 4 }))
        .await?;
    assert_eq!(rated.json()?, json!({ "title": "Blue horses", "stars": 4 }));
    // Only code writes this field; clients cannot.
    let measured = PicturePatch {
        bytes: Some(9),
        ..PicturePatch::default()
    };
    assert_eq!(
        app.adapter::<Picture>()?
            .update(&Cx::system("measure"), &*id, measured, None)
            .await?
            .bytes,
        9
    );
    let refused = client
        .patch(&format!("/pictures/{id}"), json!({ "bytes": 1 }))
        .await?
        .json()?;
    assert_eq!(refused["details"][0]["code"], "read_only");
    assert_eq!(
        send(&client, "/pictures/enter", FORM, "name=x")
            .await?
            .json()?["code"],
        "validation_failed"
    );
    assert_eq!(
        send(&client, "/pictures/enter", "text/plain", "title=x")
            .await?
            .status(),
        415
    );

    let kind = "multipart/form-data; boundary=edge";
    let part = |name: &str, text: &str| {
        format!(
            "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{text}\r\n"
        )
    };
    let files = format!(
        "{}{}--edge--\r\n",
        part("a.txt", "four"),
        part("b.txt", "eight888")
    );
    let sizes = send(&client, "/pictures/upload", kind, files).await?;
    assert_eq!(
        sizes.json()?,
        json!([{ "title": "a.txt", "stars": 4 }, { "title": "b.txt", "stars": 8 }])
    );
    let broken = send(
        &client,
        "/pictures/upload",
        kind,
        part("a.txt", "never ends"),
    )
    .await?;
    assert_eq!(
        (broken.status(), broken.json()?["code"].as_str()),
        (400, Some("validation_failed")),
        "{broken:?}"
    );
    let large = send(
        &client,
        "/pictures/upload",
        kind,
        part("a.txt", &"x".repeat(20_000)),
    )
    .await?;
    assert_eq!(
        (large.status(), large.json()?["code"].as_str()),
        (413, Some("body_too_large")),
        "{large:?}"
    );
    assert_eq!(
        send(&client, "/pictures/upload", FORM, "title=x")
            .await?
            .status(),
        400,
        "no boundary"
    );
    app.stop().await
}

#[tokio::test]
async fn the_openapi_document_has_the_inputs_and_results_of_functions() -> Result<()> {
    let config = Config::new()
        .port(0)
        .database("memory:")
        .signing_secret("only a test: 32 bytes or more of it");
    let app = App::new(config).package(&GALLERY).start().await?;
    let document = Client::new(&app).get("/openapi.json").await?.json()?;
    let route = |path: &str| document["paths"][path]["post"].clone();
    let schema_reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let body =
        |path: &str, kind: &str| route(path)["requestBody"]["content"][kind]["schema"].clone();
    let answer =
        |path: &str, kind: &str| route(path)["responses"]["200"]["content"][kind]["schema"].clone();

    assert_eq!(
        body("/pictures/{id}/rate", "application/json"),
        schema_reference("PictureRateInput")
    );
    let input = &document["components"]["schemas"]["PictureRateInput"];
    assert_eq!(
        (&input["required"], &input["properties"]["stars"]["maximum"]),
        (&json!(["stars"]), &json!(5))
    );
    assert_eq!(
        answer("/pictures/{id}/rate", "application/json"),
        schema_reference("PictureRateOutput")
    );
    let output = &document["components"]["schemas"]["PictureRateOutput"]["properties"];
    assert_eq!(output["title"]["type"], "string");

    assert_eq!(
        body("/pictures/enter", "application/x-www-form-urlencoded"),
        json!({})
    );
    assert_eq!(
        answer("/pictures/enter", "text/plain"),
        json!({ "type": "string" })
    );
    assert_eq!(body("/pictures/upload", "multipart/form-data"), json!({}));
    let list = &document["components"]["schemas"]["PictureUploadOutput"];
    assert_eq!(
        (
            answer("/pictures/upload", "application/json"),
            &list["type"]
        ),
        (schema_reference("PictureUploadOutput"), &json!("array"))
    );
    // All other statuses of a function are documented as `default`.
    assert_ne!(
        route("/pictures/upload")["responses"]["default"],
        Json::Null
    );
    app.stop().await
}
