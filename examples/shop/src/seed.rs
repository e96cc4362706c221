//! Sample data: a few products, orders of two weeks, two vouchers.

use linchpin::prelude::*;

use crate::{Order, OrderCreate, Product, Voucher, VoucherCreate};

/// The number, the name, the category and the price in cents of each product.
const PRODUCTS: [(&str, &str, &str, i64); 4] = [
    ("MU-001", "Red mug", "kitchen", 950),
    ("MU-002", "Blue mug", "kitchen", 990),
    ("TE-001", "Teapot", "kitchen", 3450),
    ("BK-001", "The blue notebook", "paper", 1200),
];
/// The position of the product in `PRODUCTS`, the quantity and the time of each order.
const ORDERS: [(usize, i64, &str); 4] = [
    (0, 2, "2026-03-03T10:00:00Z"),
    (2, 1, "2026-03-06T16:30:00Z"),
    (0, 1, "2026-03-10T09:15:00Z"),
    (3, 5, "2026-03-11T20:00:00Z"),
];
/// The code, the value in cents and the expiry date of each voucher.
const VOUCHERS: [(&str, i64, Option<&str>); 2] = [
    ("WELCOME-5", 500, None),
    ("LAST-YEAR", 1000, Some("2025-12-31T23:59:59Z")),
];

/// Adds the sample data. A second call fails, because the codes of the vouchers are taken.
pub async fn run(adapters: Adapters, _: Vec<String>) -> Result<String> {
    let (products, orders, vouchers) = (
        adapters.get::<Product>()?,
        adapters.get::<Order>()?,
        adapters.get::<Voucher>()?,
    );
    let cx = Cx::system("seed");
    let date = |text: &str| Timestamp::parse(text).map_err(Error::internal);
    for (code, cents, until) in VOUCHERS {
        let voucher = VoucherCreate {
            code: code.to_owned(),
            cents,
            expires_at: until.map(date).transpose()?,
        };
        vouchers.create(&cx, voucher).await?;
    }
    let mut ids = Vec::new();
    for (sku, name, category, price) in PRODUCTS {
        let product = products
            .import(&cx, sku, name, category, price)
            .await?
            .entity;
        products.restock(&cx, &product.id).await?;
        ids.push(product.id);
    }
    for (product, quantity, at) in ORDERS {
        let order = OrderCreate {
            product_id: ids[product].clone(),
            quantity,
            total_cents: quantity * PRODUCTS[product].3,
            placed_at: Some(date(at)?),
        };
        orders.create(&cx, order).await?;
    }
    Ok(format!(
        "{} products, {} orders, {} vouchers",
        PRODUCTS.len(),
        ORDERS.len(),
        VOUCHERS.len()
    ))
}
