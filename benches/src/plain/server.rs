//! Shared by the plain server's routes: pools, error responses, the check of the token.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use linchpin_benches::{Claims, SECRET};

use crate::db::{self, Pool};

#[derive(Clone)]
pub struct App {
    pub readers: Pool,
    pub writer: Pool,
    pub key: std::sync::Arc<jsonwebtoken::DecodingKey>,
}

pub struct Failure(pub StatusCode, pub &'static str);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, Json(serde_json::json!({"error": self.1}))).into_response()
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        match error.as_database_error() {
            Some(e) if e.is_unique_violation() => Self(StatusCode::CONFLICT, "conflict"),
            _ => Self(StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        }
    }
}

/// The sender of a valid token.
pub struct User;

impl FromRequestParts<App> for User {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let refused = Failure(StatusCode::UNAUTHORIZED, "unauthorized");
        let header = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|v| v.to_str().ok());
        let Some(token) = header.and_then(|h| h.strip_prefix("Bearer ")) else {
            return Err(refused);
        };
        let validation = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::HS256);
        jsonwebtoken::decode::<Claims>(token, &app.key, &validation)
            .map(|_| Self)
            .map_err(|_| refused)
    }
}

/// Refuses a text that is empty or has more than 200 characters.
pub fn check_length(text: &str) -> Result<(), Failure> {
    if (1..=200).contains(&text.chars().count()) {
        Ok(())
    } else {
        Err(Failure(StatusCode::BAD_REQUEST, "validation_failed"))
    }
}

/// Serves until the process ends.
pub async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let (port, url) = linchpin_benches::arguments();
    let (readers, writer) = db::connect(&url).await?;
    let app = App {
        readers,
        writer,
        key: std::sync::Arc::new(jsonwebtoken::DecodingKey::from_secret(SECRET.as_bytes())),
    };
    let router = axum::Router::new()
        .merge(crate::posts::routes())
        .merge(crate::items::routes());
    let router = router
        .route("/health/ready", get(|| async { "ok" }))
        .with_state(app);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, router).await?;
    Ok(())
}
