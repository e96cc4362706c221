#[derive(Clone, Copy, Roles)]
pub enum Role {
    Admin,
    #[role(rename = "chief-editor")]
    ChiefEditor,
}
