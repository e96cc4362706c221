//! An app that depends on another framework, which re-exports Linchpin.

use framework::linchpin::prelude::*;

/// Stands for the crate of the other framework, which depends on Linchpin.
mod framework {
    pub use linchpin;
}

/// How large a parcel is.
#[derive(FieldEnum, Clone, Copy, Debug)]
#[field(crate = framework::linchpin)]
pub enum Size {
    Small,
    Large,
}

/// A parcel.
#[entity(crate = framework::linchpin, routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Parcel {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = Size::Small)]
    pub size: Size,
}

pub static POST_OFFICE: Package = package!(
    crate = framework::linchpin,
    name = "post-office",
    entities = [entity(Parcel)]
);

#[tokio::test]
async fn an_app_can_depend_on_the_facade_crate_only() -> Result<()> {
    let config = Config::new()
        .port(0)
        .database("memory:")
        .signing_secret("only a test: 32 bytes or more of it");
    let app = App::new(config).package(&POST_OFFICE).start().await?;
    let parcel = app
        .adapter::<Parcel>()?
        .create(
            &Cx::system("seed"),
            ParcelCreate {
                size: Some(Size::Large),
            },
        )
        .await?;
    assert!(matches!(parcel.size, Size::Large));
    app.stop().await
}
