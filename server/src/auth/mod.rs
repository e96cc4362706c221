//! Authentication that comes with the framework.

mod jwt;

pub use jwt::JwtAuth;
